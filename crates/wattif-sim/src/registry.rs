//! Name → policy: its slot, its manual page (the header of its file), its tunables, and how it is built.
//!
//! Adding a policy: one file, one line in [`POLICIES`], one arm in the `build_*` function of its slot.

mod here;

pub use here::without_effect_here;

use crate::cpufreq::conservative::{self, Conservative};
use crate::cpufreq::cpufreq_governor::DbsTunables;
use crate::cpufreq::interactive::{self, Interactive};
use crate::cpufreq::ondemand::{self, Ondemand};
use crate::cpufreq::schedutil::{self, Schedutil};
use crate::cpufreq::{self, FreqGovernor};
use crate::cpuidle::default_idle::DefaultIdle;
use crate::cpuidle::{self, IdleGovernor};
use crate::engine::rng::Rng;
use crate::sched::Sched;
use crate::sched::balance::{self, FairBalancer, LoadBalancer, cpu_power};
use crate::sched::boot::is_elsewhere;
use crate::sched::class::SchedClass;
use crate::sched::class::bandwidth::CfsBandwidth;
use crate::sched::class::cfs::Cfs;
use crate::sched::class::deadline::Deadline;
use crate::sched::class::dl_bandwidth::{Reclaim, to_ratio};
use crate::sched::class::eevdf::Eevdf;
use crate::sched::class::fair::init_groups;
use crate::sched::class::rt::{Rt, RtBandwidth};
use crate::sched::features::Features;
use crate::sched::load::pelt::{Pelt, PostInit};
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
use crate::sched::rq::CfsRq;
use crate::sched::schedtune::{self, Schedtune};
use crate::sched::task::{SchedEntity, TaskGroup};
use crate::sched::topology::{Asym, DomainParams, Topology};
use crate::sched::uclamp::{Clamped, group_clamps};
use std::collections::BTreeMap;
use wattif_model::kernel::{KernelSpec, Slot, Value};
use wattif_model::platform::{HZ, IdleState, Platform};
use wattif_model::run::{RunError, RunSpec};
use wattif_model::workload::models::manual;
use wattif_model::workload::{GroupSpec, Op, Policy as SchedPolicy, SchedAttr};
use wattif_model::{CpuId, CpuSet, DomainId, Ns};

/// A tunable of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Such as `generation`.
    pub name: &'static str,
    /// The value where the kernel profile sets none.
    pub default: &'static str,
    /// All values allowed, `1..=49` for the numbers between.
    pub allowed: &'static [&'static str],
    /// One line: meaning, unit.
    pub doc: &'static str,
}

impl Tunable {
    /// In place of the values allowed: one that depends on the frequency.
    pub const PAIRS: &'static str = "a number, then kHz:number with ascending frequencies";
}

/// What one of the words of a tunable stands for; the values are in the order of the words.
pub(crate) fn meant<T: Copy, const N: usize>(words: [&str; N], values: [T; N], word: &str) -> Option<T> {
    words.iter().position(|w| *w == word).map(|i| values[i])
}

/// A policy that a kernel profile can name.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Its CLI, file and sysfs name.
    pub name: &'static str,
    /// Where it goes.
    pub slot: Slot,
    /// It fills the slot by its name; otherwise it is a step that every kernel has, with tunables of its own.
    pub selectable: bool,
    source: &'static str,
    /// Its tunables.
    pub tunables: &'static [Tunable],
}

macro_rules! policy {
    ($name:literal, $slot:ident, $selectable:literal, $file:literal, $tunables:expr) => {
        Policy {
            name: $name,
            slot: Slot::$slot,
            selectable: $selectable,
            source: include_str!($file),
            tunables: $tunables,
        }
    };
}

/// Every built-in policy.
pub static POLICIES: &[Policy] = &[
    policy!("cfs", Class, true, "sched/class/cfs.rs", crate::sched::class::cfs::TUNABLES),
    policy!("eevdf", Class, true, "sched/class/eevdf.rs", crate::sched::class::eevdf::TUNABLES),
    policy!("rt", Class, false, "sched/class/rt.rs", crate::sched::class::rt::TUNABLES),
    policy!("deadline", Class, false, "sched/class/deadline.rs", crate::sched::class::deadline::TUNABLES),
    policy!("pelt", Load, true, "sched/load/pelt.rs", crate::sched::load::pelt::TUNABLES),
    policy!("util_est", Load, false, "sched/load/util_est.rs", crate::sched::load::util_est::TUNABLES),
    policy!("select_task_rq_fair", Placement, true, "sched/placement/mod.rs", crate::sched::placement::TUNABLES),
    policy!(
        "select_idle_sibling",
        Placement,
        false,
        "sched/placement/select_idle_sibling.rs",
        crate::sched::placement::select_idle_sibling::TUNABLES
    ),
    policy!(
        "find_idlest_cpu",
        Placement,
        false,
        "sched/placement/find_idlest_cpu.rs",
        crate::sched::placement::find_idlest_cpu::TUNABLES
    ),
    policy!(
        "wake_affine",
        Placement,
        false,
        "sched/placement/wake_affine.rs",
        crate::sched::placement::wake_affine::TUNABLES
    ),
    policy!("cpu_util", Placement, false, "sched/placement/cpu_util.rs", crate::sched::placement::cpu_util::TUNABLES),
    policy!("find_best_target", Placement, false, "sched/placement/find_best_target.rs", &[]),
    policy!("schedtune", Placement, false, "sched/schedtune.rs", crate::sched::schedtune::TUNABLES),
    policy!("eas", Placement, false, "sched/placement/eas.rs", crate::sched::placement::eas::TUNABLES),
    policy!("walt", Load, true, "sched/load/walt.rs", crate::sched::load::walt::TUNABLES),
    policy!("walt_qti", Load, false, "sched/load/walt_qti.rs", crate::sched::load::walt_qti::TUNABLES),
    policy!("load_balance", Balance, true, "sched/balance/mod.rs", balance::TUNABLES),
    policy!("cpu_power", Balance, true, "sched/balance/cpu_power.rs", cpu_power::TUNABLES),
    policy!("schedutil", Cpufreq, true, "cpufreq/schedutil.rs", cpufreq::schedutil::TUNABLES),
    policy!("performance", Cpufreq, true, "cpufreq/performance.rs", &[]),
    policy!("powersave", Cpufreq, true, "cpufreq/powersave.rs", &[]),
    policy!("userspace", Cpufreq, true, "cpufreq/userspace.rs", cpufreq::userspace::TUNABLES),
    policy!("ondemand", Cpufreq, true, "cpufreq/ondemand.rs", cpufreq::ondemand::TUNABLES),
    policy!("conservative", Cpufreq, true, "cpufreq/conservative.rs", cpufreq::conservative::TUNABLES),
    policy!("interactive", Cpufreq, true, "cpufreq/interactive.rs", cpufreq::interactive::TUNABLES),
    policy!("menu", Cpuidle, true, "cpuidle/menu.rs", cpuidle::menu::TUNABLES),
    policy!("oracle", Cpuidle, true, "cpuidle/oracle.rs", cpuidle::oracle::TUNABLES),
    policy!("teo", Cpuidle, true, "cpuidle/teo.rs", cpuidle::teo::TUNABLES),
    policy!("teo_weighted", Cpuidle, true, "cpuidle/teo_weighted.rs", cpuidle::teo_weighted::TUNABLES),
    policy!("ladder", Cpuidle, true, "cpuidle/ladder.rs", cpuidle::ladder::TUNABLES),
    policy!("haltpoll", Cpuidle, true, "cpuidle/haltpoll.rs", cpuidle::haltpoll::TUNABLES),
    policy!("default_idle", Cpuidle, false, "cpuidle/default_idle.rs", cpuidle::default_idle::TUNABLES),
    policy!("pm_qos", Cpuidle, false, "cpuidle/pm_qos.rs", cpuidle::pm_qos::TUNABLES),
    policy!("powernv", Cpuidle, false, "cpuidle/powernv.rs", cpuidle::powernv::TUNABLES),
];

/// A policy by name.
pub fn policy(name: &str) -> Option<&'static Policy> {
    POLICIES.iter().find(|p| p.name == name)
}

impl Policy {
    /// The manual page: the header of the policy's file, as Markdown.
    pub fn manual(&self) -> String {
        manual(self.source)
    }
    /// The first line of the manual.
    pub fn summary(&self) -> String {
        self.manual().lines().next().unwrap_or("").trim_end_matches('.').to_string()
    }
    /// A tunable by name.
    pub fn tunable(&self, name: &str) -> Option<&'static Tunable> {
        self.tunables.iter().find(|t| t.name == name)
    }
}

/// Something that is wrong with a kernel profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Tunables of which another value would do, as paths: the refused one, and what limits it.
    pub tunables: Vec<String>,
    /// What is wrong.
    pub message: String,
}

impl Refusal {
    fn new(tunables: &[&str], message: String) -> Refusal {
        Refusal { tunables: tunables.iter().map(|path| (*path).to_string()).collect(), message }
    }
    /// All of them in one text.
    pub fn join(all: &[Refusal], between: &str) -> String {
        all.iter().map(|r| r.message.as_str()).collect::<Vec<_>>().join(between)
    }
}

/// What is wrong with a kernel profile: unknown policies, tunables, features, values.
pub fn check(kernel: &KernelSpec) -> Vec<Refusal> {
    let mut wrong = Vec::new();
    let unknown = |message| Refusal::new(&[], message);
    for (slot, name) in &kernel.policies {
        match policy(name) {
            Some(p) if p.slot == *slot && p.selectable => {}
            _ => wrong.push(unknown(format!(
                "`{name}` is no policy of kind {}; there are: {}",
                slot.name(),
                names(*slot)
            ))),
        }
    }
    let of_tunable = |(path, value): (&String, &Value)| Some(Refusal::new(&[path], check_tunable(path, value)?));
    wrong.extend(kernel.tunables.iter().filter_map(of_tunable));
    wrong.extend(crossed_thresholds(kernel));
    wrong.extend(rt_budget_beyond(kernel));
    wrong.extend(fair_server_beyond(kernel));
    for name in kernel.features.keys().filter(|n| !Features::ALL.iter().any(|(f, _)| f == n)) {
        wrong.push(unknown(format!("there is no scheduler feature `{name}`")));
    }
    wrong
}

fn names(slot: Slot) -> String {
    let of_slot = POLICIES.iter().filter(|p| p.slot == slot && p.selectable);
    of_slot.map(|p| p.name).collect::<Vec<_>>().join(", ")
}

fn check_tunable(path: &str, value: &Value) -> Option<String> {
    let Some((name, tunable)) = path.split_once('.') else {
        return Some(format!("`{path}` is no `policy.tunable`"));
    };
    let Some(policy) = policy(name) else {
        return Some(format!("there is no policy `{name}`"));
    };
    let Some(known) = policy.tunable(tunable) else {
        let all: Vec<&str> = policy.tunables.iter().map(|t| t.name).collect();
        return Some(format!("`{name}` has no tunable `{tunable}`; it has: {}", all.join(", ")));
    };
    let text = value.to_string();
    // A number has one spelling: another one would be another run, or none that can be read.
    let number = text.parse().ok().filter(|n: &i64| n.to_string() == text);
    let in_range = |a: &&str| range(a).zip(number).is_some_and(|(r, n)| r.contains(&n));
    // Written out, a range is no word of its own.
    let is_word = |a: &&str| *a == text && range(a).is_none() && *a != Tunable::PAIRS;
    if text == known.default || known.allowed.iter().any(|a| is_word(a) || in_range(a)) {
        return None;
    }
    if known.allowed.contains(&Tunable::PAIRS) {
        let ok = interactive::Steps::parse(&text).is_some();
        return (!ok).then(|| format!("`{path}` takes {}, such as `85 1000000:90`, not `{text}`", Tunable::PAIRS));
    }
    Some(format!("`{path}` takes one of {}, not `{text}`", known.allowed.join(", ").replace("..=", " to ")))
}

/// Conservative thresholds that the kernel refuses: the lower one must be below the upper one.
fn crossed_thresholds(kernel: &KernelSpec) -> Option<Refusal> {
    let t = Tunables::of(kernel, "conservative");
    let (down, up) = (t.maybe_int::<u64>("down_threshold")?, t.maybe_int::<u64>("up_threshold")?);
    let refused =
        || format!("`conservative.down_threshold` takes less than `up_threshold`, which is {up}, not `{down}`");
    (down >= up).then(|| Refusal::new(&["conservative.down_threshold", "conservative.up_threshold"], refused()))
}

/// A real-time budget that the kernel refuses: more than its period.
fn rt_budget_beyond(kernel: &KernelSpec) -> Option<Refusal> {
    let t = Tunables::of(kernel, "rt");
    let (runtime, period) = (t.maybe_int::<u64>("sched_rt_runtime_us")?, t.maybe_int::<u64>("sched_rt_period_us")?);
    let refused = || {
        format!(
            "`rt.sched_rt_runtime_us` takes at most `sched_rt_period_us`, which is {period}, or -1, not `{runtime}`"
        )
    };
    (runtime > period).then(|| Refusal::new(&["rt.sched_rt_runtime_us", "rt.sched_rt_period_us"], refused()))
}

/// A fair server that the kernel refuses when it is set: more than its period, or than deadline tasks may have.
fn fair_server_beyond(kernel: &KernelSpec) -> Option<Refusal> {
    const RUNTIME: &str = "deadline.fair_server_runtime_us";
    const PERIOD: &str = "deadline.fair_server_period_us";
    let t = Tunables::of(kernel, "deadline");
    let set = [RUNTIME, PERIOD].iter().any(|path| kernel.tunables.contains_key(*path));
    if !set || t.text("generation") != "6.12" {
        return None;
    }
    let (runtime, period) =
        (t.maybe_int::<u64>("fair_server_runtime_us")?, t.maybe_int::<u64>("fair_server_period_us")?);
    let refused = |limit: &str, most: String| {
        Some(Refusal::new(&[RUNTIME, limit], format!("`{RUNTIME}` takes at most {most}, not `{runtime}`")))
    };
    if runtime > period {
        return refused(PERIOD, format!("`fair_server_period_us`, which is {period}"));
    }
    let rt = Tunables::of(kernel, "rt");
    let (limit, of) = (rt.maybe_int::<u64>("sched_rt_runtime_us")?, rt.maybe_int::<u64>("sched_rt_period_us")?);
    if to_ratio(period, runtime) <= to_ratio(of, limit) {
        return None;
    }
    let most = u128::from(period) * u128::from(limit) / u128::from(of.max(1));
    refused(
        "rt.sched_rt_runtime_us",
        format!("{most}, the share of its period that `rt.sched_rt_runtime_us` leaves to deadline tasks"),
    )
}

/// Such as `1..=49` among the values of a tunable.
fn range(allowed: &str) -> Option<std::ops::RangeInclusive<i64>> {
    let (lo, hi) = allowed.split_once("..=")?;
    Some(lo.parse().ok()?..=hi.parse().ok()?)
}

/// The tunables of one policy under a kernel profile.
pub(crate) struct Tunables<'a> {
    kernel: &'a KernelSpec,
    policy: &'static Policy,
}

impl<'a> Tunables<'a> {
    pub(crate) fn of(kernel: &'a KernelSpec, name: &str) -> Tunables<'a> {
        Tunables { kernel, policy: policy(name).expect("a built-in policy") }
    }
    /// The value of a tunable; its default where the profile says nothing.
    pub(crate) fn text(&self, name: &str) -> String {
        let known = self.policy.tunable(name).expect("the policy declares the tunables it reads");
        let set = self.kernel.tunables.get(&format!("{}.{name}", self.policy.name));
        set.map_or(known.default.to_string(), Value::to_string)
    }
    /// A switch.
    pub(crate) fn on(&self, name: &str) -> bool {
        self.text(name) == "true"
    }
    /// A number, of a type that holds all the tunable allows.
    pub(crate) fn int<T: TryFrom<u64>>(&self, name: &str) -> T {
        self.maybe_int(name).expect("checked before")
    }
    /// A number, where the default is a word such as `auto`.
    pub(crate) fn maybe_int<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        let number: u64 = self.text(name).parse().ok()?;
        Some(T::try_from(number).ok().expect("the range of the tunable fits the type"))
    }
}

/// Everything that a kernel profile decides about a run.
pub(crate) struct Built {
    pub sched: Sched,
    pub fair: Box<dyn SchedClass>,
    pub rt: Box<dyn SchedClass>,
    pub dl: Box<dyn SchedClass>,
    pub placement: Box<dyn WakeupPlacement>,
    pub balancer: Box<dyn LoadBalancer>,
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
    Ok(Built {
        sched: build_sched(spec, build_groups(spec), tick_ns, &balancer),
        fair: build_class(kernel, platform.nr_cpus()),
        rt: Box::new(Rt { rr_timeslice_ms: rr_timeslice_ms(kernel) }),
        dl: Box::new(build_deadline(kernel)),
        balancer: Box::new(balancer),
        placement: Box::new(placement),
        cpufreq: platform.domains.iter().map(|_| build_cpufreq(kernel)).collect(),
        cpuidle: build_cpuidle(kernel, platform, tick_ns),
    })
}

/// The policy in a slot; profiles are checked, so there is one.
fn chosen(kernel: &KernelSpec, slot: Slot) -> &str {
    let default = match slot {
        Slot::Class => "eevdf",
        Slot::Load => "pelt",
        Slot::Placement => "select_task_rq_fair",
        Slot::Balance => "load_balance",
        Slot::Cpufreq => "schedutil",
        Slot::Cpuidle => "menu",
    };
    kernel.policies.get(&slot).map_or(default, String::as_str)
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
    pelt.unscaled = pelt_tunables.text("generation") == "unscaled";
    pelt.scaled = pelt.unscaled || pelt_tunables.text("generation") == "scaled";
    pelt.migrate_lag = pelt_tunables.on("migrate_lag");
    pelt.post_init = if pelt_tunables.text("post_init") == "6.1" { PostInit::V6_1 } else { PostInit::V6_12 };
    let util_est = Tunables::of(kernel, "util_est").text("generation");
    let mut s = Sched::bare(platform.nr_cpus(), tick_ns);
    s.topology = build_topology(kernel, platform, balancer);
    s.features = features;
    s.util_est = util_est::Generation::by_name(&util_est).expect("the registry allows only its generations");
    s.walt = (chosen(kernel, Slot::Load) == "walt").then(|| build_walt(spec, tick_ns));
    s.schedtune = build_schedtune(kernel, &groups);
    s.latency_req_ns = cpuidle::pm_qos::latency_req_ns(Tunables::of(kernel, "pm_qos").maybe_int("cpu_latency_us"));
    s.default_idle = parsed(&Tunables::of(kernel, "default_idle"), "tick", DefaultIdle::parse);
    s.polling_is_told = cpuidle::powernv::polling_is_told(&Tunables::of(kernel, "powernv").text("snooze"), platform);
    s.affinity_distributes = Tunables::of(kernel, "select_task_rq_fair").text("affinity") == "next";
    s.groups = groups;
    s.rd.energy_aware = balancer.eas;
    s.rd.energy_aware_4_9 = s.rd.energy_aware && Tunables::of(kernel, "eas").text("generation") == "4.9";
    s.clamped = clamped(kernel);
    s.rd.uclamp_used = s.clamped >= Clamped::Groups && clamps_groups(spec);
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
fn clamped(kernel: &KernelSpec) -> Clamped {
    parsed(&Tunables::of(kernel, "cpu_util"), "uclamp", Clamped::parse)
}

/// May groups have this? What came with EEVDF, or after it, is not asked for here.
fn knows_of_groups(kernel: &KernelSpec, what: &str) -> bool {
    chosen(kernel, Slot::Class) != "cfs" || Tunables::of(kernel, "cfs").on(what)
}

/// Does a group of the workload clamp its threads?
fn clamps_groups(spec: &RunSpec) -> bool {
    spec.workload.groups.iter().any(|g| (g.uclamp_min, g.uclamp_max) != (0, 1024))
}

/// May fair tasks ask for a slice of their own?
fn hears_slices(kernel: &KernelSpec) -> bool {
    chosen(kernel, Slot::Class) == "eevdf" && Tunables::of(kernel, "eevdf").on("custom_slice")
}

fn build_schedtune(kernel: &KernelSpec, groups: &[TaskGroup]) -> Option<Schedtune> {
    let t = Tunables::of(kernel, "schedtune");
    let all = schedtune::Group {
        boost_pct: t.text("boost_pct").parse().expect("checked before"),
        prefer_idle: t.on("prefer_idle"),
        touched: false,
    };
    let group = |name: &str| schedtune::Group {
        boost_pct: t.text(&format!("{name}_boost_pct")).parse().unwrap_or(all.boost_pct),
        prefer_idle: t.text(&format!("{name}_prefer_idle")).parse().unwrap_or(all.prefer_idle),
        touched: false,
    };
    let paths: Vec<&str> = groups.iter().map(|g| g.path.as_str()).collect();
    let first = if schedtune::names_groups(paths.iter().copied()) { group("root") } else { all };
    let set = [first, group("top_app"), group("foreground"), group("background")];
    let tune = Schedtune {
        touch_boost_pct: t.int("touch_boost_pct"),
        touch_ns: t.int::<u64>("touch_ms") * 1_000_000,
        ..Schedtune::new(set, &paths)
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

fn build_walt_windows(spec: &RunSpec, tick_ns: u64) -> Walt {
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
fn hz_of(spec: &RunSpec) -> u32 {
    spec.kernel.hz.unwrap_or(spec.platform.hz)
}

/// The period of the display that the workload draws for.
fn display_of(spec: &RunSpec) -> Option<Ns> {
    spec.workload.mark_periods.iter().flatten().min().copied()
}

/// What a window is to last: a number, or by the display.
fn window_ms(spec: &RunSpec) -> u64 {
    let t = Tunables::of(&spec.kernel, "walt");
    t.maybe_int("window_ms").unwrap_or_else(|| walt_qti::window_of_display_ms(display_of(spec), hz_of(spec)))
}

/// What a kernel that [`check`] finds nothing wrong with makes of its settings on a platform, and of what a workload asks
/// for, that a user may not expect.
pub fn notes(spec: &RunSpec) -> Vec<String> {
    let mut notes = window_notes(spec);
    notes.extend(speed_notes(spec));
    notes.extend(disabled_notes(spec));
    notes.extend(elsewhere_notes(spec));
    if spec.workload.is_recorded() && !spec.platform.noise.housekeeping.is_empty() {
        notes.push(
            "the platform's own background threads are left out: the workload has those of a recorded machine".into(),
        );
    }
    let what = match Tunables::of(&spec.kernel, "eas").text("generation").as_str() {
        "4.9" => Some("eas.generation = 4.9: no find_best_target here"),
        // Where capacities are equal nobody expects it.
        _ => spec.platform.is_asymmetric().then_some("no energy-aware placement here"),
    };
    notes.extend(what.zip(no_eas(spec)).map(|(what, why)| format!("{what}: {why}")));
    notes.extend(unheard_notes(spec));
    notes
}

/// What a workload asks for that this kernel does not know.
fn unheard_notes(spec: &RunSpec) -> Vec<String> {
    let slices = |attr: &SchedAttr| attr.policy.is_fair() && attr.runtime.0 != 0;
    let clamps = |attr: &SchedAttr| attr.util_min.is_some() || attr.util_max.is_some();
    let (clamped, groups) = (clamped(&spec.kernel), &spec.workload.groups);
    let told = |what: &str, since| format!("{what} have no effect: this kernel knows none, they came with {since}");
    let mut notes = Vec::new();
    if !hears_slices(&spec.kernel) && asks_for(spec, slices) {
        notes.push(told("slices that fair threads ask for (dl-runtime)", "6.12"));
    }
    if clamped < Clamped::Tasks && asks_for(spec, clamps) {
        notes.push(told("clamps that threads ask for (util_min, util_max)", "5.3"));
    }
    if clamped < Clamped::Groups && clamps_groups(spec) {
        notes.push(told("clamps of groups (cpu.uclamp.min, cpu.uclamp.max)", "5.4"));
    }
    if !knows_of_groups(&spec.kernel, "group_idle") && groups.iter().any(|g| g.idle) {
        notes.push(told("idle groups (cpu.idle)", "5.15"));
    }
    if !knows_of_groups(&spec.kernel, "group_burst") && groups.iter().any(|g| g.quota.is_some() && g.burst.0 > 0) {
        notes.push(told("bursts of groups (cpu.max.burst)", "5.14"));
    }
    let deadline = |attr: &SchedAttr| attr.policy == SchedPolicy::Deadline;
    if !Tunables::of(&spec.kernel, "deadline").on("known") && asks_for(spec, deadline) {
        notes.push("deadline threads are simulated, but this kernel has no such class: it came with 3.14".to_string());
    }
    notes
}

/// A speed that clocks do not have, and what they hold instead.
fn speed_notes(spec: &RunSpec) -> Vec<String> {
    let asked: u32 = Tunables::of(&spec.kernel, "userspace").int("setspeed_khz");
    if chosen(&spec.kernel, Slot::Cpufreq) != "userspace" || asked == 0 {
        return Vec::new();
    }
    let mut held: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for d in &spec.platform.domains {
        let (lowest, highest) = (d.opps[0].khz, d.opps[d.opps.len() - 1].khz);
        let within = asked.clamp(lowest, highest);
        if within != asked {
            d.cpus.iter().for_each(|cpu| held.entry(within).or_default().insert(cpu));
        }
    }
    let told = |(khz, cpus): (&u32, &CpuSet)| {
        let edge = if asked > *khz { "highest" } else { "lowest" };
        format!("userspace.setspeed_khz = {asked}: CPUs {cpus} hold {khz}, their {edge}")
    };
    held.iter().map(told).collect()
}

/// Background threads of CPUs that the platform does not have.
fn elsewhere_notes(spec: &RunSpec) -> Option<String> {
    const NAMED: usize = 6;
    let nr_cpus = spec.platform.nr_cpus();
    let left_out = spec.workload.tasks.iter().filter(|t| is_elsewhere(t, nr_cpus));
    let names: Vec<&str> = left_out.map(|t| t.name.as_str()).collect();
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let why = "bound to CPUs that the platform does not have, left out";
    (!names.is_empty()).then(|| format!("background of the recorded machine, {why}: {first}{more}"))
}

/// Where a state is entered that is disabled.
fn disabled_notes(spec: &RunSpec) -> Vec<String> {
    let governor = chosen(&spec.kernel, Slot::Cpuidle);
    let mut notes: Vec<String> = Vec::new();
    for states in spec.platform.clusters.iter().map(|c| &c.idle[..]) {
        for note in disabled_notes_of(&spec.kernel, governor, states) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// Some governors do not look; the posted weighted teo looks and may then take the wrong one. That governors fall back on
/// the first state where all are disabled is what the check of a platform says.
fn disabled_notes_of(kernel: &KernelSpec, governor: &str, states: &[IdleState]) -> Vec<String> {
    let blind = match governor {
        "haltpoll" => &states[..states.len().min(2)],
        "ladder" => std::slice::from_ref(&states[usize::from(states[0].polling && states.len() > 1)]),
        _ => &[],
    };
    let told = |s: &IdleState| {
        format!("{governor} does not look whether {} is disabled, and enters it, as in the kernel", s.name)
    };
    let mut notes: Vec<String> = blind.iter().filter(|s| s.disabled).map(told).collect();
    let posted = governor == "teo_weighted" && Tunables::of(kernel, governor).text("generation") != "ideal";
    if posted && states.iter().any(|s| s.disabled) && !states.iter().all(|s| s.disabled) {
        let slip = "takes a position among the enabled states for a state, as posted: it may enter a disabled one";
        notes.push(format!("the draw of teo_weighted {slip}"));
    }
    notes
}

fn window_notes(spec: &RunSpec) -> Vec<String> {
    if chosen(&spec.kernel, Slot::Load) != "walt" {
        return Vec::new();
    }
    let hz = hz_of(spec);
    let tick_ns = cpuidle::tick_nsec(hz);
    let asked = window_ms(spec);
    let window_ns = build_walt_windows(spec, tick_ns).window_ns;
    let (us, ticks) = ((window_ns + 500) / 1_000, window_ns / tick_ns);
    let cut = (window_ns.abs_diff(asked * 1_000_000) >= 1_000).then(|| {
        format!(
            "walt.window_ms = {asked}: windows are whole ticks, {us} µs here ({ticks} {} at {hz} Hz)",
            if ticks == 1 { "tick" } else { "ticks" }
        )
    });
    let by_display = Tunables::of(&spec.kernel, "walt").text("window_ms") == "display";
    let fixed = by_display.then(|| why_not_by_display(spec, hz)).flatten();
    fixed.map(|why| format!("walt.window_ms = display: {why}, {asked} ms here")).into_iter().chain(cut).collect()
}

/// Why windows do not follow the display, if so.
fn why_not_by_display(spec: &RunSpec, hz: u32) -> Option<String> {
    match display_of(spec) {
        _ if hz != walt_qti::DISPLAY_HZ => {
            Some(format!("only a kernel of {} Hz follows the display", walt_qti::DISPLAY_HZ))
        }
        None => Some("the workload draws for none".into()),
        Some(_) => None,
    }
}

/// Does a thread of the workload ask for this, at its start or later?
fn asks_for(spec: &RunSpec, asks: impl Fn(&SchedAttr) -> bool) -> bool {
    let later = |op: &Op| matches!(op, Op::SetAttr(attr) if asks(attr));
    spec.workload.tasks.iter().any(|t| asks(&t.attr) || t.program.ops.iter().any(later))
}

/// Why there is no energy-aware placement on a platform although the kernel would do it, if so.
fn no_eas(spec: &RunSpec) -> Option<&'static str> {
    let (kernel, platform) = (&spec.kernel, &spec.platform);
    if !wants_eas(kernel) || build_eas(kernel, platform).is_some() {
        return None;
    }
    let generation = Tunables::of(kernel, "eas").text("generation");
    Some(match () {
        () if platform.smt_share.len() > 1 => "cores have several threads",
        () if generation != "4.9" && !platform.is_asymmetric() => "all CPUs have the same capacity",
        () => "the platform does not state the power of every operating point",
    })
}

/// Why setting this changes nothing under a kernel that [`check`] finds nothing wrong with, if so: another policy stands in
/// its slot, another generation of it, or nobody reads it.
pub fn without_effect(kernel: &KernelSpec, path: &str) -> Option<String> {
    let (name, tunable) = path.rsplit_once('.')?;
    if name == "features" {
        return feature_without_effect(kernel, tunable).map(|why| format!("{path} changes nothing: {why}"));
    }
    let p = policy(name.rsplit('.').next()?)?;
    let doc = p.tunable(tunable)?.doc;
    let generation = |of: &str| Tunables::of(kernel, of).text("generation");
    let stands = chosen(kernel, p.slot);
    let slot_is = || format!("{} is {stands}", p.slot.name());
    let qti = || chosen(kernel, Slot::Cpufreq) == "schedutil" && generation("schedutil") == "4.9-qti";
    let why = match (p.name, tunable) {
        // Balancing reads PELT under any tracker.
        ("pelt", _) => None,
        (name, _) if p.selectable && stands != name => Some(slot_is()),
        ("walt_qti", _) if stands != "walt" => Some(slot_is()),
        ("walt_qti", "predicted_demand" | "new_task_load") => {
            (!qti()).then(|| "only schedutil of generation 4.9-qti reads it".to_string())
        }
        ("util_est", _) => feature_without_effect(kernel, "UTIL_EST").or_else(|| {
            let off = kernel.features.get("UTIL_EST") == Some(&false);
            off.then(|| "the feature UTIL_EST is off".to_string())
        }),
        ("schedtune", _) => (generation("eas") != "4.9" && !generation("schedutil").starts_with("4.9"))
            .then(|| "only kernels of generation 4.9 know schedtune".to_string()),
        ("schedutil", "generation") if qti() && chosen(kernel, Slot::Load) != "walt" => {
            return Some(format!("{path} is as 4.9: load is {}", chosen(kernel, Slot::Load)));
        }
        ("schedutil", "rate_limit_us") if generation("schedutil").starts_with("4.9") => {
            let t = Tunables::of(kernel, "schedutil");
            let both = ["up_rate_limit_us", "down_rate_limit_us"].iter().all(|l| t.maybe_int::<u64>(l).is_some());
            both.then(|| "up_rate_limit_us and down_rate_limit_us are set".to_string())
        }
        ("eas", "generation") if generation("eas") != "off" && !wants_eas(kernel) => {
            let stands = chosen(kernel, Slot::Cpufreq);
            return Some(format!("{path} is as off: energy-aware placement needs schedutil, cpufreq is {stands}"));
        }
        ("cpu_util", _) => cpu_util_without_effect(kernel, tunable),
        ("pm_qos", "cpu_latency_us") => latency_limit_without_effect(kernel),
        _ => None,
    };
    let other = || {
        let only = doc.strip_prefix("generation ").and_then(|doc| doc.split(':').next())?;
        let has = generation(p.name);
        (!has.starts_with(only)).then(|| format!("only generation {only} has it, this is {has}"))
    };
    why.or_else(other).map(|why| format!("{path} changes nothing: {why}"))
}

/// Why no idle governor heeds the latency limit, if so.
fn latency_limit_without_effect(kernel: &KernelSpec) -> Option<String> {
    let limit: u64 = Tunables::of(kernel, "pm_qos").maybe_int("cpu_latency_us")?;
    match chosen(kernel, Slot::Cpuidle) {
        "oracle" => Some("cpuidle is oracle, which never wakes up late: no limit binds it".into()),
        "haltpoll" if limit != 0 => Some("cpuidle is haltpoll, which only looks whether the limit is 0".into()),
        _ => None,
    }
}

/// Why nobody reads this tunable of `cpu_util`, if so.
fn cpu_util_without_effect(kernel: &KernelSpec, tunable: &str) -> Option<String> {
    let walt = chosen(kernel, Slot::Load) == "walt";
    let t = Tunables::of(kernel, "cpu_util");
    let readers = || ["schedutil", "eas", "balance"].into_iter().filter(|c| does_not_read(kernel, c).is_none());
    let in_use = |scheme: fn(&Boost) -> bool| readers().any(|c| scheme(&boost_of(kernel, c)));
    let no_waiting = |boost: Boost| {
        let by_waiting = walt && !matches!(boost, Boost::Off | Boost::ResponseTime { .. });
        by_waiting.then(|| "load is walt, whose signals do not say who waits".to_string())
    };
    match tunable {
        "uclamp" => None,
        "gate_pct" => (!in_use(|b| matches!(b, Boost::RelGate(_)))).then(|| "no scheme in use is rel-gate".to_string()),
        "delay_us" => (!in_use(|b| matches!(b, Boost::ResponseTime { .. })))
            .then(|| "no scheme in use is response-time".to_string()),
        "boost" => match readers().find(|c| t.text(c) == "same") {
            Some(consumer) => no_waiting(boost_of(kernel, consumer)),
            None => Some("nothing in this kernel reads it".to_string()),
        },
        consumer => does_not_read(kernel, consumer).or_else(|| no_waiting(boost_of(kernel, consumer))),
    }
}

/// Why a consumer of `cpu_util` asks for no boosted utilisation, if so.
fn does_not_read(kernel: &KernelSpec, consumer: &str) -> Option<String> {
    let generation = |of: &str| Tunables::of(kernel, of).text("generation");
    let (cpufreq, balance) = (chosen(kernel, Slot::Cpufreq), chosen(kernel, Slot::Balance));
    match consumer {
        "balance" if balance != "load_balance" => Some(format!("balance is {balance}")),
        "balance" => {
            let has = generation("load_balance");
            (has != "6.12").then(|| format!("only load_balance of generation 6.12 reads it, this is {has}"))
        }
        _ if cpufreq != "schedutil" => Some(format!("cpufreq is {cpufreq}")),
        "eas" => {
            let has = generation("eas");
            matches!(has.as_str(), "off" | "4.9").then(|| format!("eas.generation is {has}"))
        }
        _ => None,
    }
}

/// Why a scheduler feature changes nothing under a kernel, if so.
fn feature_without_effect(kernel: &KernelSpec, name: &str) -> Option<String> {
    let (class, load) = (chosen(kernel, Slot::Class), chosen(kernel, Slot::Load));
    let idle = match name {
        "UTIL_EST" if load == "walt" => "load is walt",
        "GENTLE_FAIR_SLEEPERS" | "START_DEBIT" | "ALT_PERIOD" | "BASE_SLICE" | "LAST_BUDDY" if class == "eevdf" => {
            "class is eevdf"
        }
        "PLACE_LAG"
        | "PLACE_DEADLINE_INITIAL"
        | "PLACE_REL_DEADLINE"
        | "RUN_TO_PARITY"
        | "PREEMPT_SHORT"
        | "DELAY_DEQUEUE"
        | "DELAY_ZERO"
            if class == "cfs" =>
        {
            "class is cfs"
        }
        "WA_IDLE" | "WA_WEIGHT" | "WA_BIAS" if Tunables::of(kernel, "wake_affine").text("generation") == "3.13" => {
            "wake_affine.generation is 3.13"
        }
        "SIS_PROP" => "select_idle_sibling.scan says how far to scan",
        "SIS_UTIL" if Tunables::of(kernel, "select_idle_sibling").text("scan") != "util" => {
            "select_idle_sibling.scan says how far to scan, and not by utilisation"
        }
        "RT_RUNTIME_SHARE" if rt_bandwidth(kernel).is_none() => "the real-time class has no limit here to share",
        "TTWU_QUEUE" => "a waker puts the task on the other CPU's queue itself here",
        _ => return None,
    };
    Some(idle.to_string())
}

/// The domains; to a kernel of the age of `cpu_power` that is what CPUs have, and capacity does not exist.
fn build_topology(kernel: &KernelSpec, platform: &Platform, balancer: &FairBalancer) -> Topology {
    if balancer.generation == balance::Generation::V3_13 {
        let mut cpus = platform.cpus.clone();
        cpus.iter_mut().zip(&balancer.power.original).for_each(|(cpu, power)| cpu.capacity = *power);
        return Topology::of_cpus(&cpus, DomainParams::V3_13);
    }
    let t = Tunables::of(kernel, "load_balance");
    let before_5_10 = t.text("generation").starts_with("5.");
    let params = if before_5_10 { DomainParams::BEFORE_5_10 } else { DomainParams::SINCE_5_10 };
    let asym = parsed(&t, "asym_capacity", Asym::parse);
    let (clusters, asym_packing) = (t.on("cluster"), t.on("asym_packing"));
    let mut cpus = platform.cpus.clone();
    (0..).zip(&mut cpus).for_each(|(i, cpu)| cpu.capacity = platform.told_capacity(CpuId(i)));
    Topology::of_cpus(&cpus, DomainParams { asym, clusters, asym_packing, ..params })
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
fn rt_bandwidth(kernel: &KernelSpec) -> Option<RtBandwidth> {
    global_rt_bandwidth(kernel).filter(|_| Tunables::of(kernel, "rt").text("generation") == "6.1")
}

fn build_deadline(kernel: &KernelSpec) -> Deadline {
    let t = Tunables::of(kernel, "deadline");
    let reclaim = Reclaim::new(t.text("generation") != "6.1", global_rt_bandwidth(kernel));
    Deadline { reclaim: t.on("reclaim").then_some(reclaim) }
}

/// What the real-time and deadline classes may use.
fn init_bandwidth(s: &mut Sched, kernel: &KernelSpec) {
    let (rt, dl) = (Tunables::of(kernel, "rt"), Tunables::of(kernel, "deadline"));
    s.rt_overload = if rt.text("generation") == "6.1" { 2 } else { 1 };
    s.rt_capacity_aware = rt.on("capacity_aware");
    s.dl_capacity_aware = dl.on("capacity_aware");
    s.rd.dl_bw = global_rt_bandwidth(kernel);
    s.rd.rt_bandwidth = rt_bandwidth(kernel);
    let us = |name| dl.int::<u64>(name) * 1000;
    s.rd.dl_period_ns = (us("sched_deadline_period_min_us"), us("sched_deadline_period_max_us"));
    let has_server = dl.text("generation") == "6.12";
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
        groups.push(TaskGroup { path, parent, shares, idle, bandwidth, uclamp, ..TaskGroup::root() });
    }
    groups
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
        Box::new(eevdf)
    }
}

/// The value of a tunable whose words a policy's own parser knows; the registry has checked it.
fn parsed<T>(tunables: &Tunables<'_>, name: &str, parse: impl Fn(&str) -> Option<T>) -> T {
    parse(&tunables.text(name)).expect("the registry allows only what the policy parses")
}

/// How waiting raises the utilisation that `consumer` sees.
fn boost_of(kernel: &KernelSpec, consumer: &str) -> Boost {
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
    p.select_idle_sibling.cluster = sis.on("cluster");
    p.find_idlest_cpu.generation = parsed(&idlest, "generation", find_idlest_cpu::Generation::parse);
    p.find_idlest_cpu.sched_idle = parsed(&idlest, "sched_idle", SchedIdle::parse);
    p.wake_affine.generation = parsed(&affine, "generation", wake_affine::Generation::parse);
    p.before_5_7 = own.on("before_5_7");
    p.eas = build_eas(kernel, platform);
    p
}

/// Is there energy-aware placement, where the platform allows it? Since 5.0 only under schedutil, see `sched_is_eas_possible`.
fn wants_eas(kernel: &KernelSpec) -> bool {
    match Tunables::of(kernel, "eas").text("generation").as_str() {
        "off" => false,
        "4.9" => true,
        _ => chosen(kernel, Slot::Cpufreq) == "schedutil",
    }
}

fn build_eas(kernel: &KernelSpec, platform: &Platform) -> Option<Box<dyn EnergyAware>> {
    let t = Tunables::of(kernel, "eas");
    if !wants_eas(kernel) {
        return None;
    }
    if t.text("generation") == "4.9" {
        return Some(Box::new(FindBestTarget::of_platform(platform)?));
    }
    let generation = parsed(&t, "generation", energy_model::Generation::parse);
    Some(Box::new(eas::Eas::of_platform(eas::Tunables { generation, boost: boost_of(kernel, "eas") }, platform)?))
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
            target_loads: parsed(&t, "target_loads", interactive::Steps::parse),
            min_sample_time_us: t.int("min_sample_time_us"),
            timer_rate_us: t.int("timer_rate_us"),
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
            boost: boost_of(kernel, "schedutil"),
        })),
    }
}

/// What the sampling governors share.
fn dbs_tunables(t: &Tunables<'_>) -> DbsTunables {
    DbsTunables {
        sampling_rate_us: t.maybe_int("sampling_rate_us"),
        up_threshold: t.int("up_threshold"),
        sampling_down_factor: t.int("sampling_down_factor"),
    }
}

/// Does the idle governor need a first pass that finds out the future?
pub fn needs_foresight(kernel: &KernelSpec) -> bool {
    chosen(kernel, Slot::Cpuidle) == "oracle"
}

fn build_cpuidle(kernel: &KernelSpec, platform: &Platform, tick_ns: u64) -> Box<dyn IdleGovernor> {
    let nr_cpus = platform.nr_cpus();
    let name = chosen(kernel, Slot::Cpuidle);
    let t = Tunables::of(kernel, name);
    let generation = t.policy.tunable("generation").map_or(String::new(), |g| t.text(g.name));
    if name == "oracle" {
        let built = cpuidle::oracle::build(&generation, cpuidle::oracle::costs(platform), nr_cpus);
        return built.expect("it has one generation");
    }
    if name == "teo_weighted" {
        let built = cpuidle::teo_weighted::build(&generation, weighted_tuning(&t), nr_cpus, tick_ns);
        return built.expect("the registry allows only known generations");
    }
    let intervals = t.policy.tunable("intervals").map_or(cpuidle::teo::INTERVALS, |own| t.int(own.name));
    let built = cpuidle::build(name, &generation, intervals, nr_cpus, tick_ns);
    built.expect("the registry allows only known generations")
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

    #[test]
    fn settings_without_effect() {
        let mut kernel = KernelSpec::default();
        kernel.policies.insert(Slot::Cpuidle, "teo".into());
        let why = |kernel: &KernelSpec, path: &str| without_effect(kernel, path);
        let idle = ["walt.window_ms", "walt_qti.early_detection", "teo.intervals", "schedtune.boost_pct"];
        for path in idle.into_iter().chain(["schedutil.up_rate_limit_us"]) {
            assert!(why(&kernel, path).is_some(), "{path}");
        }
        for path in ["teo.generation", "pelt.half_life_ms", "schedutil.rate_limit_us", "load_balance.generation", "hz"]
        {
            assert_eq!(why(&kernel, path), None);
        }
        kernel.policies.insert(Slot::Load, "walt".into());
        kernel.tunables.insert("teo.generation".into(), Value::Text("5.6".into()));
        for path in ["walt.window_ms", "teo.intervals", "pelt.half_life_ms"] {
            assert_eq!(why(&kernel, path), None);
        }
        assert!(why(&kernel, "util_est.generation").unwrap().contains("load is walt"));
    }

    #[test]
    fn tunables_say_what_they_take() {
        for (policy, t) in POLICIES.iter().flat_map(|p| p.tunables.iter().map(move |t| (p, t))) {
            let path = format!("{}.{}", policy.name, t.name);
            assert!(!t.allowed.is_empty(), "{path}");
            // The default is of its kind too: among the words, within a range, or a word that stands for no number.
            let number: Option<i64> = t.default.parse().ok();
            let within = t.allowed.iter().filter_map(|a| range(a)).any(|r| number.is_some_and(|n| r.contains(&n)));
            let steps = t.allowed.contains(&Tunable::PAIRS) && interactive::Steps::parse(t.default).is_some();
            let same = t.default == "same";
            assert!(within || steps || same || t.allowed.contains(&t.default), "{path}");
        }
    }

    /// A kernel with these policies, tunables and nothing else.
    fn kernel(policies: &[(Slot, &str)], tunables: &[(&str, &str)]) -> KernelSpec {
        let mut kernel = KernelSpec::default();
        kernel.policies.extend(policies.iter().map(|&(slot, name)| (slot, name.to_string())));
        kernel.tunables.extend(tunables.iter().map(|&(path, value)| (path.into(), Value::Text(value.into()))));
        assert_eq!(check(&kernel), []);
        kernel
    }

    #[test]
    fn a_number_has_one_spelling() {
        let mut kernel = KernelSpec::default();
        for (text, takes) in [("0", true), ("5", true), ("-0", false), ("+5", false), ("05", false), ("-1", false)] {
            kernel.tunables.insert("userspace.setspeed_khz".into(), Value::Text(text.into()));
            assert_eq!(check(&kernel).is_empty(), takes, "{text}");
        }
    }

    #[test]
    fn budgets_are_those_that_the_kernel_takes() {
        let wrong = |set: &[(&str, &str)]| {
            let mut kernel = KernelSpec::default();
            kernel.tunables.extend(set.iter().map(|&(path, value)| (path.into(), Value::Text(value.into()))));
            Refusal::join(&check(&kernel), "; ")
        };
        let (rt, rt_period) = ("rt.sched_rt_runtime_us", "rt.sched_rt_period_us");
        let (server, period) = ("deadline.fair_server_runtime_us", "deadline.fair_server_period_us");
        for set in [
            &[(rt, "1000000")][..],
            &[(rt, "-1"), (rt_period, "500000")],
            &[(rt, "500000"), (rt_period, "500000")],
            &[(rt, "0")],
            &[(server, "950000")],
            &[(server, "1000000"), (rt, "-1")],
            &[(server, "1000000"), (rt, "1000000")],
            &[(server, "0"), (rt, "0")],
            &[(server, "100000"), (period, "100"), ("deadline.generation", "6.6")],
        ] {
            assert_eq!(wrong(set), "", "{set:?}");
        }
        assert_eq!(
            wrong(&[(rt, "1000001")]),
            "`rt.sched_rt_runtime_us` takes at most `sched_rt_period_us`, which is 1000000, or -1, not `1000001`"
        );
        assert!(wrong(&[(rt_period, "500000")]).contains("which is 500000, or -1, not `950000`"));
        assert_eq!(
            wrong(&[(server, "1000"), (period, "999"), (rt, "-1")]),
            "`deadline.fair_server_runtime_us` takes at most `fair_server_period_us`, which is 999, not `1000`"
        );
        assert_eq!(
            wrong(&[(server, "1000000")]),
            "`deadline.fair_server_runtime_us` takes at most 950000, the share of its period that `rt.sched_rt_runtime_us` \
             leaves to deadline tasks, not `1000000`"
        );
        assert!(wrong(&[(period, "50000")]).contains("at most 47500,"), "{}", wrong(&[(period, "50000")]));
    }

    #[test]
    fn thresholds_are_those_that_the_kernel_takes() {
        let wrong = |path: &str, value: i64| {
            let mut kernel = KernelSpec::default();
            kernel.tunables.insert(path.into(), Value::Int(value));
            check(&kernel)
        };
        for (path, takes, refuses) in [
            ("ondemand.up_threshold", [1, 100], [0, 101]),
            ("ondemand.sampling_down_factor", [1, 100_000], [0, 100_001]),
            ("conservative.up_threshold", [21, 100], [20, 101]),
            ("conservative.down_threshold", [1, 79], [0, 80]),
            ("conservative.sampling_down_factor", [1, 10], [0, 11]),
        ] {
            assert!(takes.iter().all(|&v| wrong(path, v).is_empty()), "{path}");
            assert!(refuses.iter().all(|&v| wrong(path, v).len() == 1), "{path}");
        }
    }

    #[test]
    fn settings_that_nobody_reads() {
        let rates = [("schedutil.up_rate_limit_us", "500"), ("schedutil.down_rate_limit_us", "20000")];
        let android: Vec<_> =
            [("schedutil.generation", "4.9"), ("eas.generation", "4.9"), ("load_balance.generation", "5.4")]
                .into_iter()
                .chain(rates)
                .collect();
        let with = |more: (&'static str, &'static str)| {
            android.iter().copied().filter(|t| t.0 != more.0).chain([more]).collect::<Vec<_>>()
        };
        let walt = [(Slot::Load, "walt")];
        let slow = [(Slot::Cpufreq, "performance")];
        let idle: [(&[_], Vec<_>, &str); 22] = [
            (&[], vec![("select_idle_sibling.scan", "prop")], "features.SIS_UTIL"),
            (&[], vec![], "features.RT_RUNTIME_SHARE"),
            (&[], vec![("deadline.generation", "6.1")], "deadline.fair_server_runtime_us"),
            (&[], vec![("deadline.generation", "6.6")], "deadline.fair_server_period_us"),
            (&[], vec![], "features.TTWU_QUEUE"),
            (&walt, android.clone(), "walt_qti.predicted_demand"),
            (&walt, android.clone(), "walt_qti.new_task_load"),
            (&walt, android.clone(), "features.UTIL_EST"),
            (&walt, with(("cpu_util.boost", "h1")), "cpu_util.boost"),
            (&walt, with(("cpu_util.schedutil", "h1")), "cpu_util.schedutil"),
            (&walt, android.clone(), "schedutil.rate_limit_us"),
            (&walt, android.clone(), "cpu_power.cores"),
            (&[], with(("schedutil.generation", "4.9-qti")), "schedutil.generation"),
            (&[], android.clone(), "schedutil.rate_limit_us"),
            (&[], android.clone(), "cpu_util.eas"),
            (&[], android.clone(), "cpu_util.balance"),
            (&[], vec![("cpu_util.boost", "h1")], "cpu_util.gate_pct"),
            (&[], vec![("cpu_util.boost", "h1")], "cpu_util.delay_us"),
            (&slow, vec![], "eas.generation"),
            (&slow, vec![], "cpu_util.eas"),
            (&[(Slot::Class, "cfs")], vec![], "features.PLACE_LAG"),
            (&[(Slot::Balance, "cpu_power"), slow[0]], vec![], "cpu_util.boost"),
        ];
        for (policies, tunables, path) in idle {
            assert!(
                without_effect(&kernel(policies, &tunables), path).is_some(),
                "{path} of {policies:?} {tunables:?}"
            );
        }
        let at_work: [(&[_], Vec<_>, &str); 13] = [
            (&[], vec![], "features.SIS_UTIL"),
            (&[], vec![("rt.generation", "6.1")], "features.RT_RUNTIME_SHARE"),
            (&[], vec![], "deadline.fair_server_runtime_us"),
            (&walt, with(("schedutil.generation", "4.9-qti")), "walt_qti.predicted_demand"),
            (&walt, with(("cpu_util.boost", "response-time")), "cpu_util.boost"),
            (&walt, with(("cpu_util.boost", "response-time")), "cpu_util.delay_us"),
            (&walt, vec![("schedutil.generation", "4.9")], "schedutil.rate_limit_us"),
            (&[], with(("cpu_util.boost", "h1")), "cpu_util.boost"),
            (&[], vec![("cpu_util.eas", "rel-gate")], "cpu_util.gate_pct"),
            (&slow, vec![("eas.generation", "off")], "eas.generation"),
            (&slow, vec![], "cpu_util.boost"),
            (&[], vec![], "features.UTIL_EST"),
            (&[], vec![], "features.PLACE_LAG"),
        ];
        for (policies, tunables, path) in at_work {
            assert_eq!(without_effect(&kernel(policies, &tunables), path), None, "{policies:?} {tunables:?}");
        }
    }
}
