//! A kernel profile of what a kernel says of its configuration, its scheduler features and its tunables.

use super::boot::Boot;
use super::platform::{Clock, clocks};
use super::{CPU, Files, Imported, number, online};
use crate::machine::list;
use crate::words::quoted;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use wattif_model::check::Diagnostic;
use wattif_model::kernel::{version, why};

/// What a kernel says of itself: any of its configuration, its scheduler features, its release.
#[derive(Clone, Debug, Default)]
pub struct KernelFacts {
    /// `.config`, `/proc/config.gz` unpacked or `/boot/config-*`.
    pub config: Option<String>,
    /// `/sys/kernel/debug/sched/features`.
    pub features: Option<String>,
    /// `uname -r`.
    pub release: Option<String>,
    /// Governors in use, or asked for on the command line, where they were captured.
    pub cpufreq: Option<String>,
    /// See `cpufreq`.
    pub cpuidle: Option<String>,
    /// Tunables that were captured: slot and policy, name in a profile, value as TOML.
    pub tunables: Vec<(&'static str, &'static str, String)>,
    /// `proc/sys/kernel/sched_energy_aware`.
    pub energy_aware: Option<bool>,
    /// `proc/sys/kernel/sched_autogroup_enabled`.
    pub autogroup: Option<bool>,
    /// Are ticks of busy CPUs stopped, where it is built in: `sys/devices/system/cpu/nohz_full`, or the command line.
    pub nohz_full: Option<bool>,
    /// Ticks of idle CPUs go on (`nohz=off`).
    pub ticks_go_on: bool,
    /// Are WALT's signals in use, where it is built in: `proc/sys/kernel/sched_use_walt_cpu_util`, `sched_use_walt_task_util`.
    pub use_walt: [Option<bool>; 2],
    /// Are threads preempted lazily: `sys/kernel/debug/sched/preempt`, or the command line.
    pub preempt_lazy: Option<bool>,
    /// Of what was captured: what a profile cannot say.
    pub findings: Vec<Diagnostic>,
}

/// Where kernels keep their tunables, and what they are called in a profile. Of two places the first that exists counts.
const TUNABLES: &[(&str, &str, &[&str])] = &[
    ("class.eevdf", "base_slice_ns", &["sys/kernel/debug/sched/base_slice_ns"]),
    ("class.eevdf", "bandwidth_slice_us", &["proc/sys/kernel/sched_cfs_bandwidth_slice_us"]),
    ("class.cfs", "sched_latency_ns", &["sys/kernel/debug/sched/latency_ns", "proc/sys/kernel/sched_latency_ns"]),
    (
        "class.cfs",
        "min_granularity_ns",
        &["sys/kernel/debug/sched/min_granularity_ns", "proc/sys/kernel/sched_min_granularity_ns"],
    ),
    ("class.cfs", "idle_min_granularity_ns", &["sys/kernel/debug/sched/idle_min_granularity_ns"]),
    (
        "class.cfs",
        "wakeup_granularity_ns",
        &["sys/kernel/debug/sched/wakeup_granularity_ns", "proc/sys/kernel/sched_wakeup_granularity_ns"],
    ),
    ("class.cfs", "bandwidth_slice_us", &["proc/sys/kernel/sched_cfs_bandwidth_slice_us"]),
    ("class.rt", "sched_rt_runtime_us", &["proc/sys/kernel/sched_rt_runtime_us"]),
    ("class.rt", "sched_rt_period_us", &["proc/sys/kernel/sched_rt_period_us"]),
    ("class.rt", "sched_rr_timeslice_ms", &["proc/sys/kernel/sched_rr_timeslice_ms"]),
    (
        "balance.load_balance",
        "migration_cost_ns",
        &["sys/kernel/debug/sched/migration_cost_ns", "proc/sys/kernel/sched_migration_cost_ns"],
    ),
    ("balance.load_balance", "nr_migrate", &["sys/kernel/debug/sched/nr_migrate", "proc/sys/kernel/sched_nr_migrate"]),
    ("class.deadline", "sched_deadline_period_min_us", &["proc/sys/kernel/sched_deadline_period_min_us"]),
    ("class.deadline", "sched_deadline_period_max_us", &["proc/sys/kernel/sched_deadline_period_max_us"]),
];

/// Tunables of governors: the governor, name in a profile, name of the file. They are in one folder for all clocks, or in one
/// of each.
const OF_GOVERNORS: &[(&str, &str, &str)] = &[
    ("cpufreq.schedutil", "rate_limit_us", "schedutil/rate_limit_us"),
    ("cpufreq.schedutil", "up_rate_limit_us", "schedutil/up_rate_limit_us"),
    ("cpufreq.schedutil", "down_rate_limit_us", "schedutil/down_rate_limit_us"),
    ("cpufreq.schedutil", "hispeed_freq_khz", "schedutil/hispeed_freq"),
    ("cpufreq.schedutil", "iowait_boost_enable", "schedutil/iowait_boost_enable"),
    ("cpufreq.ondemand", "sampling_rate_us", "ondemand/sampling_rate"),
    ("cpufreq.ondemand", "up_threshold", "ondemand/up_threshold"),
    ("cpufreq.ondemand", "sampling_down_factor", "ondemand/sampling_down_factor"),
    ("cpufreq.conservative", "sampling_rate_us", "conservative/sampling_rate"),
    ("cpufreq.conservative", "up_threshold", "conservative/up_threshold"),
    ("cpufreq.conservative", "down_threshold", "conservative/down_threshold"),
    ("cpufreq.conservative", "freq_step_pct", "conservative/freq_step"),
    ("cpufreq.conservative", "sampling_down_factor", "conservative/sampling_down_factor"),
    ("cpufreq.interactive", "hispeed_freq_khz", "interactive/hispeed_freq"),
    ("cpufreq.interactive", "go_hispeed_load", "interactive/go_hispeed_load"),
    ("cpufreq.interactive", "above_hispeed_delay_us", "interactive/above_hispeed_delay"),
    ("cpufreq.interactive", "target_loads", "interactive/target_loads"),
    ("cpufreq.interactive", "min_sample_time_us", "interactive/min_sample_time"),
    ("cpufreq.interactive", "timer_rate_us", "interactive/timer_rate"),
    ("cpufreq.interactive", "boost", "interactive/boost"),
    ("cpufreq.interactive", "boostpulse_duration_us", "interactive/boostpulse_duration"),
    ("cpufreq.userspace", "setspeed_khz", "scaling_setspeed"),
];

/// A captured value as TOML: a number, -1 where there is no limit, or steps such as `85 1000000:90`.
fn value(text: &str) -> Option<String> {
    let text = text.trim();
    if text == "-1" || text.parse::<u64>().is_ok_and(|n| n <= i64::MAX as u64) {
        return Some(text.into());
    }
    let steps = text.contains(':') && text.chars().all(|c| c.is_ascii_digit() || ": ".contains(c));
    steps.then(|| format!("\"{text}\""))
}

/// Of what clocks say each for its CPUs, that of most CPUs, of as many that of the first; that they differ is told.
fn of_most(what: &str, told: &[(String, &[u32])], findings: &mut Vec<Diagnostic>) -> Option<String> {
    let mut values: Vec<(&str, Vec<u32>)> = Vec::new();
    for (value, cpus) in told {
        match values.iter_mut().find(|(v, _)| v == value) {
            Some((_, of)) => of.extend_from_slice(cpus),
            None => values.push((value, cpus.to_vec())),
        }
    }
    let most = values.iter().rev().max_by_key(|(_, cpus)| cpus.len())?.0;
    if values.len() > 1 {
        let one =
            |(value, cpus): &(&str, Vec<u32>)| format!("{} on CPUs {}", quoted(value.trim_matches('"')), list(cpus));
        let all = values.iter().map(one).collect::<Vec<_>>().join(", ");
        let message =
            format!("{what} differs: {all}; a profile has one: {}, that of most CPUs", quoted(most.trim_matches('"')));
        findings.push(Diagnostic::warning("sysfs::W04", 0..0, message));
    }
    Some(most.into())
}

/// Drivers that choose frequencies on their own. What they call `powersave` follows the load; the governor of that name does not.
const OWN_POLICY: [&str; 3] = ["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"];

/// Who chooses the frequency of a clock. A driver's own `powersave` is none of the governors, and is called by the driver too.
fn governor(files: Files<'_>, clock: &Clock) -> Option<String> {
    let line = |file: &str| files(&format!("{}/{file}", clock.dir)).map(|text| text.trim().to_string());
    let governor = line("scaling_governor")?;
    let driver = line("scaling_driver").unwrap_or_else(|| "unknown".into());
    // All that such drivers offer, in these words and this order.
    let own = line("scaling_available_governors").is_some_and(|all| all == "performance powersave");
    Some(match governor == "powersave" && (own || OWN_POLICY.contains(&driver.as_str())) {
        true => format!("powersave of the driver {driver}"),
        false => governor,
    })
}

/// The idle governor, by the file it has had since Linux 5.8 and on some before, or by the other of those.
fn cpuidle(files: Files<'_>) -> Option<String> {
    let line = |file: &str| files(&format!("{CPU}/cpuidle/{file}")).map(|text| text.trim().to_string());
    line("current_governor").or_else(|| line("current_governor_ro"))
}

/// Settings of governors that no profile has, below the folder of a clock, of all clocks or of a module: whose, where, what it
/// is here.
const FIXED: &[(&str, &str, &str)] = &[
    ("ondemand", "ondemand/ignore_nice_load", "0"),
    ("ondemand", "ondemand/powersave_bias", "0"),
    ("ondemand", "ondemand/io_is_busy", "0"),
    ("conservative", "conservative/ignore_nice_load", "0"),
    ("interactive", "interactive/io_is_busy", "0"),
];

/// The same of the module `haltpoll`.
const HALTPOLL: [(&str, &str); 5] = [
    ("guest_halt_poll_ns", "200000"),
    ("guest_halt_poll_grow", "2"),
    ("guest_halt_poll_shrink", "2"),
    ("guest_halt_poll_grow_start", "50000"),
    ("guest_halt_poll_allow_shrink", "Y"),
];

/// Those that differ from what is simulated, each once.
fn unlike_here(files: Files<'_>, clocks: &[Clock], used: &[Option<String>]) -> Vec<Diagnostic> {
    let mut found: Vec<(&str, String, &str)> = Vec::new();
    let mut look = |name, path: String, here| {
        let value = files(&path).map(|text| text.trim().to_string());
        found.extend(value.filter(|v| v != here && !v.is_empty()).map(|value| (name, value, here)));
    };
    for (governor, file, here) in FIXED {
        let with = |used: &Option<String>| used.as_deref().is_none_or(|used| used == *governor);
        let dirs = clocks.iter().zip(used).filter(|(_, used)| with(used)).map(|(clock, _)| clock.dir.as_str());
        let of_all = format!("{CPU}/cpufreq");
        dirs.chain([of_all.as_str()]).for_each(|dir| look(file, format!("{dir}/{file}"), here));
    }
    if cpuidle(files).is_none_or(|governor| governor == "haltpoll") {
        HALTPOLL.iter().for_each(|(name, here)| look(name, format!("sys/module/haltpoll/parameters/{name}"), here));
    }
    let mut seen = BTreeSet::new();
    let once = found.into_iter().filter(|(name, value, _)| seen.insert((*name, value.clone())));
    let told = |(name, value, here): (&str, String, &str)| {
        let message =
            format!("{name} = {}: not simulated; here it is {here}", value.chars().take(40).collect::<String>());
        Diagnostic::warning("sysfs::W03", 0..0, message)
    };
    once.map(told).collect()
}

/// What can be read of the tunables, those of a governor from clocks that are `used` with it.
fn tunables(
    files: Files<'_>,
    clocks: &[Clock],
    used: &[Option<String>],
    findings: &mut Vec<Diagnostic>,
) -> Vec<(&'static str, &'static str, String)> {
    let mut out = Vec::new();
    let read = |path: &str, findings: &mut Vec<Diagnostic>| {
        let text = files(path).filter(|text| !text.starts_with('<'))?; // <unsupported>
        let value = value(&text);
        if value.is_none() {
            let message = format!("{path}: {} is left out", quoted(text.trim()));
            findings.push(Diagnostic::warning("sysfs::W01", 0..0, message));
        }
        value
    };
    for (slot, name, paths) in TUNABLES {
        let value = paths.iter().find_map(|path| read(path, findings));
        out.extend(value.map(|value| (*slot, *name, value)));
    }
    for (name, file) in [("fair_server_runtime_us", "runtime"), ("fair_server_period_us", "period")] {
        let ns = number(files, &format!("sys/kernel/debug/sched/fair_server/cpu0/{file}"));
        out.extend(ns.map(|ns| ("class.deadline", name, (ns / 1_000).to_string())));
    }
    for (slot, name, file) in OF_GOVERNORS {
        let governor = slot.trim_start_matches("cpufreq.");
        let mut told = Vec::new();
        let with = |used: &&Option<String>| used.as_deref().is_none_or(|used| used == governor);
        for (clock, _) in clocks.iter().zip(used).filter(|(_, used)| with(used)) {
            let value = read(&format!("{}/{file}", clock.dir), findings);
            told.extend(value.map(|value| (value, &clock.cpus[..])));
        }
        let of_all = read(&format!("{CPU}/cpufreq/{file}"), findings);
        let value = of_all.or_else(|| of_most(file, &told, findings));
        out.extend(value.map(|value| (*slot, *name, value)));
    }
    out
}

/// `uname -r`.
pub(super) fn release(files: Files<'_>) -> Option<String> {
    let version = || files("proc/version")?.strip_prefix("Linux version ")?.split(' ').next().map(String::from);
    files("proc/sys/kernel/osrelease").map(|r| r.trim().to_string()).or_else(version)
}

/// The configuration of a kernel of this release.
pub(super) fn config(files: Files<'_>, release: Option<&str>) -> Option<String> {
    let places = ["proc/config.gz", "boot/config-*", "lib/modules/*/config", "proc/config"];
    places.iter().find_map(|path| match release {
        Some(r) if !r.contains('/') => files(&path.replace('*', r)),
        _ => files(path),
    })
}

fn switched_on(config: &str, option: &str) -> bool {
    config.lines().any(|l| l.trim().strip_suffix("=y") == Some(option))
}

/// Ticks a second. Of 250 a configuration says both HZ_250=y and HZ=250; a part of one, either.
pub(super) fn ticks(config: &str) -> Option<i64> {
    let hz = config.lines().find_map(|l| l.trim().strip_prefix("CONFIG_HZ=")?.parse().ok());
    let hz = hz.or([100, 250, 300, 1000].into_iter().find(|hz| switched_on(config, &format!("CONFIG_HZ_{hz}"))));
    hz.filter(|hz| crate::kernel_toml::HZ.contains(hz))
}

/// Limits of utilisation clamps for the whole system, and what holds here. Kernels begin with 1024 in each.
const CLAMPS: [(&str, &str); 3] = [
    ("sched_util_clamp_min", "a thread may ask for any `util_min`"),
    ("sched_util_clamp_max", "a thread may ask for any `util_max`"),
    ("sched_util_clamp_min_rt_default", "real-time threads run at full speed unless they ask for less"),
];

/// Those of them that a capture sets, which no profile can say.
fn clamps(files: Files<'_>) -> impl Iterator<Item = Diagnostic> {
    let set = move |name: &str| number(files, &format!("proc/sys/kernel/{name}")).filter(|value| *value != 1024);
    CLAMPS.iter().filter_map(move |(name, instead)| {
        let message = format!("{name} = {}: not simulated; {instead}, as with 1024", set(name)?);
        Some(Diagnostic::warning("sysfs::W03", 0..0, message))
    })
}

/// Until Linux 6.6, a new thread can be put before the one that made it.
fn child_runs_first(files: Files<'_>) -> Option<Diagnostic> {
    let name = "sched_child_runs_first";
    let value = number(files, &format!("proc/sys/kernel/{name}")).filter(|value| *value != 0)?;
    let message = format!("{name} = {value}: not simulated; a new thread waits as others do here, as with 0");
    Some(Diagnostic::warning("sysfs::W03", 0..0, message))
}

/// The name of the scheduler; `root` is the one of the whole machine, and no home folder.
const SCHED_EXT_OPS: &str = concat!("sys/kernel/sched_ext/root", "/ops");

/// A scheduler loaded as BPF, as Linux has since 6.12: fair threads are its own.
#[doc(alias = "scx_enabled")]
fn sched_ext(files: Files<'_>) -> Option<Diagnostic> {
    files("sys/kernel/sched_ext/state").filter(|state| state.trim() == "enabled")?;
    let ops = files(SCHED_EXT_OPS).filter(|ops| !ops.trim().is_empty());
    let ops = ops.map_or("a scheduler".into(), |ops| quoted(ops.trim()));
    let message =
        format!("sched_ext has {ops} loaded: not simulated; the profile's own classes schedule all threads here");
    Some(Diagnostic::warning("sysfs::W03", 0..0, message))
}

/// Is lazy preemption in use? The one in use is in brackets: `none voluntary full (lazy)`.
#[doc(alias = "sched_dynamic_show")]
fn preempt_lazy(files: Files<'_>, boot: &Boot) -> Option<bool> {
    let used = files("sys/kernel/debug/sched/preempt").filter(|modes| modes.contains('('));
    used.map(|modes| modes.contains("(lazy)")).or_else(|| Some(boot.asked("preempt")? == "lazy"))
}

/// Whose utilisation WALT's is: that of CPUs, and of tasks.
const USE_WALT: [&str; 2] = ["sched_use_walt_cpu_util", "sched_use_walt_task_util"];

/// What Android's kernels are built with, of one age or the other.
const ANDROIDS: [&str; 4] = ["CONFIG_ANDROID", "CONFIG_SCHED_TUNE", "CONFIG_SCHED_WALT", "CONFIG_ANDROID_VENDOR_HOOKS"];

/// The feature of Android's kernels before 5.0 that switches energy-aware placement.
const ENERGY_AWARE: &str = "ENERGY_AWARE";

impl KernelFacts {
    /// From a live machine or a capture.
    pub fn of(files: Files<'_>) -> KernelFacts {
        let release = release(files);
        let clocks = clocks(files, &online(files).unwrap_or(vec![0]));
        let used: Vec<Option<String>> = clocks.iter().map(|clock| governor(files, clock)).collect();
        let told: Vec<_> = clocks.iter().zip(&used).filter_map(|(c, g)| Some((g.clone()?, &c.cpus[..]))).collect();
        let boot = Boot::of(files);
        let mut findings: Vec<Diagnostic> = clamps(files).chain(unlike_here(files, &clocks, &used)).collect();
        findings.extend(boot.of_kernel().chain(child_runs_first(files)).chain(sched_ext(files)));
        KernelFacts {
            config: config(files, release.as_deref()),
            features: files("sys/kernel/debug/sched/features").or(files("sys/kernel/debug/sched_features")),
            release,
            cpufreq: of_most("the cpufreq governor", &told, &mut findings)
                .or_else(|| boot.asked("cpufreq.default_governor")),
            cpuidle: cpuidle(files).or_else(|| boot.asked("cpuidle.governor")),
            tunables: tunables(files, &clocks, &used, &mut findings),
            energy_aware: number(files, "proc/sys/kernel/sched_energy_aware").map(|n| n != 0),
            autogroup: number(files, "proc/sys/kernel/sched_autogroup_enabled").map(|n| n != 0),
            nohz_full: boot.nohz_full.as_ref().map(|cpus| !cpus.is_empty()),
            ticks_go_on: boot.ticks_go_on(),
            preempt_lazy: preempt_lazy(files, &boot),
            use_walt: USE_WALT.map(|name| number(files, &format!("proc/sys/kernel/{name}")).map(|n| n != 0)),
            findings,
        }
    }
    /// From one file: a configuration or a list of features.
    pub fn from_text(text: &str) -> KernelFacts {
        let features = !text.contains("CONFIG_")
            && text.split_whitespace().take(3).all(|w| w.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
        match features {
            true => KernelFacts { features: Some(text.into()), ..KernelFacts::default() },
            false => KernelFacts { config: Some(text.into()), ..KernelFacts::default() },
        }
    }
    /// Version, by the release or the configuration's first lines.
    pub fn version(&self) -> Option<String> {
        let of_config = || {
            let head = self.config.as_ref()?.lines().take(5).find(|l| l.contains("Kernel Configuration"))?;
            head.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit())).map(String::from)
        };
        self.release.clone().or_else(of_config)
    }
    /// Is it Android's kernel? By its release, its options, or a machine that no phone is; `None` where nothing tells. Distributions for
    /// x86 have binder as well.
    pub fn android(&self) -> Option<bool> {
        let release = self.version().unwrap_or_default();
        let head = self.config.iter().flat_map(|c| c.lines().take(5)).find(|l| l.contains("Kernel Configuration"));
        if release.contains("android") {
            return Some(true);
        }
        if head.is_some_and(|l| l.contains("Linux/x86")) || ["amd64", "x86_64"].iter().any(|m| release.contains(m)) {
            return Some(false);
        }
        self.config.as_ref().map(|_| ANDROIDS.iter().any(|option| self.has(option)))
    }
    /// Is load tracked in windows?
    fn walt(&self) -> bool {
        let module = |c: &String| c.lines().any(|l| l.trim() == "CONFIG_SCHED_WALT=m");
        (self.has("CONFIG_SCHED_WALT") || self.config.as_ref().is_some_and(module)) && self.use_walt != [Some(false); 2]
    }
    /// Is an option built in?
    fn has(&self, option: &str) -> bool {
        self.config.as_ref().is_some_and(|c| switched_on(c, option))
    }
    /// Is an option left out, in so many words? One that depends on another left out is not mentioned at all.
    fn lacks(&self, option: &str) -> bool {
        let line = format!("# {option} is not set");
        self.config.as_ref().is_some_and(|c| c.lines().any(|l| l.trim() == line))
    }
    /// Energy-aware placement is switched off, or left out when the kernel was built.
    fn without_eas(&self) -> bool {
        let words = || self.features.iter().flat_map(|text| text.split_whitespace());
        let off = || words().any(|word| word.strip_prefix("NO_") == Some(ENERGY_AWARE));
        self.energy_aware == Some(false) || self.lacks("CONFIG_ENERGY_MODEL") || off()
    }
    /// Tunables that switches and options stand for.
    fn switched(&self) -> Vec<(&'static str, &'static str, String)> {
        // CONFIG_UCLAMP_TASK depends on schedutil.
        let clamps = ["CONFIG_UCLAMP_TASK", "CONFIG_CPU_FREQ_GOV_SCHEDUTIL", "CONFIG_CPU_FREQ"];
        let of_threads = self.has("CONFIG_UCLAMP_TASK") && self.lacks("CONFIG_UCLAMP_TASK_GROUP");
        let set = [
            (self.without_eas(), "placement.eas", "generation", "\"off\""),
            (clamps.iter().any(|option| self.lacks(option)), "placement.cpu_util", "uclamp", "\"off\""),
            (of_threads, "placement.cpu_util", "uclamp", "\"5.3\""),
            (self.lacks("CONFIG_SCHED_CLUSTER"), "balance.load_balance", "cluster", "\"off\""),
        ];
        set.into_iter().filter(|s| s.0).map(|(_, slot, name, value)| (slot, name, value.to_string())).collect()
    }
}

/// The governors in use, or else those that the configuration makes the default.
fn governors(facts: &KernelFacts, findings: &mut Vec<Diagnostic>) -> String {
    let default = |prefix: &str, of: &[&str]| {
        let found = of.iter().find(|g| facts.has(&format!("{prefix}_{}", g.to_uppercase())));
        found.map(|g| g.to_string())
    };
    let cpufreq = ["schedutil", "ondemand", "conservative", "performance", "powersave", "userspace", "interactive"];
    // By rating, as the kernel picks among those built in: menu 20, teo 19, ladder 10 (25 where ticks never stop), haltpoll 9.
    let mut cpuidle = ["menu", "teo", "ladder", "haltpoll"];
    if facts.has("CONFIG_HZ_PERIODIC") || facts.ticks_go_on {
        cpuidle = ["ladder", "menu", "teo", "haltpoll"];
    }
    let in_use = [
        ("cpufreq", facts.cpufreq.clone().or_else(|| default("CONFIG_CPU_FREQ_DEFAULT_GOV", &cpufreq)), &cpufreq[..]),
        ("cpuidle", facts.cpuidle.clone().or_else(|| default("CONFIG_CPU_IDLE_GOV", &cpuidle)), &cpuidle[..]),
    ];
    let mut policies = String::new();
    for (slot, governor, known) in in_use {
        match governor {
            Some(g) if known.contains(&g.as_str()) => drop(writeln!(policies, "{slot} = \"{g}\"")),
            Some(g) => {
                let message = format!("{slot} governor {}: not simulated; the parent's is used", quoted(&g));
                findings.push(Diagnostic::warning("sysfs::W01", 0..0, message));
            }
            None => {}
        }
    }
    policies
}

/// Windows instead of PELT: a policy of the one profile whose kernel has them.
fn windows(facts: &KernelFacts, parent: &str, findings: &mut Vec<Diagnostic>) -> &'static str {
    if !facts.walt() {
        return "";
    }
    let mut warn = |message| findings.push(Diagnostic::warning("sysfs::W03", 0..0, message));
    if parent != ANDROID_4_9 {
        warn(format!(
            "CONFIG_SCHED_WALT: not simulated as this kernel has it; load is tracked as in {parent} (`wattif explain walt`)"
        ));
        return "";
    }
    for (name, _) in USE_WALT.iter().zip(facts.use_walt).filter(|(_, on)| *on == Some(false)) {
        warn(format!("{name} = 0: not simulated alone; WALT's utilisation is of CPUs and tasks here"));
    }
    "load = \"walt\"\n"
}

/// The profile whose kernel has WALT and the feature [`ENERGY_AWARE`].
const ANDROID_4_9: &str = "android-4.9";

/// What kernels are built with that changes figures and that no profile can ask for.
const NOT_SIMULATED: [(&str, &str); 5] = [
    ("CONFIG_PREEMPT_RT", "interrupts are no threads here, and locks of the kernel do not sleep"),
    (PREEMPT_LAZY, "fair threads that are to give way to each other do so at once here, not at the next tick"),
    ("CONFIG_HZ_PERIODIC", "ticks of idle CPUs stop here"),
    (NO_HZ_FULL, "ticks of busy CPUs never stop here, as without `nohz_full=` on the command line"),
    (AUTOGROUP, "threads of a session are no group here, as with sched_autogroup_enabled = 0"),
];
const AUTOGROUP: &str = "CONFIG_SCHED_AUTOGROUP";
const PREEMPT_LAZY: &str = "CONFIG_PREEMPT_LAZY";
const NO_HZ_FULL: &str = "CONFIG_NO_HZ_FULL";

/// What kernels are built without, while it is here.
const SIMULATED: [(&str, &str); 6] = [
    ("CONFIG_SCHED_MC", "CPUs that share a cache have a scheduling domain here"),
    ("CONFIG_SCHED_SMT", "threads of a core have a scheduling domain here"),
    ("CONFIG_FAIR_GROUP_SCHED", "groups have shares here, where the workload names any"),
    ("CONFIG_CFS_BANDWIDTH", "limits of groups hold here, where the workload states any"),
    ("CONFIG_CPU_IDLE", "the parent's idle governor chooses among all states of the platform here"),
    ("CONFIG_CPU_FREQ", "the parent's frequency governor sets the clocks here"),
];

fn not_simulated(facts: &KernelFacts) -> impl Iterator<Item = Diagnostic> {
    let warn = |message| Diagnostic::warning("sysfs::W03", 0..0, message);
    // Where it is known whether it is used, that is all there is to say.
    let settled = |option: &str| match option {
        AUTOGROUP => facts.autogroup == Some(false),
        NO_HZ_FULL => facts.nohz_full.is_some(),
        PREEMPT_LAZY => facts.preempt_lazy == Some(false),
        _ => false,
    };
    let is_used = |option: &str| option == PREEMPT_LAZY && facts.preempt_lazy == Some(true);
    let has = move |option: &str| facts.has(option) && !settled(option) || is_used(option);
    let has = NOT_SIMULATED.iter().filter(move |(option, _)| has(option));
    let lacks = SIMULATED.iter().filter(|(option, _)| facts.lacks(option));
    has.map(move |(option, instead)| warn(format!("{option}: not simulated; {instead}")))
        .chain(lacks.map(move |(option, here)| warn(format!("{option} is not set: not simulated; {here}"))))
}

/// A kernel profile that inherits from `parent` and sets what is known. `features` are those the simulator has.
pub fn kernel(facts: &KernelFacts, name: &str, parent: &str, features: &[&str]) -> Imported {
    let mut out = Imported::default();
    out.diagnostics.extend(not_known(facts, parent));
    let policies = governors(facts, &mut out.diagnostics) + windows(facts, parent, &mut out.diagnostics);
    out.diagnostics.extend(facts.findings.iter().cloned());
    out.diagnostics.extend(not_simulated(facts));
    let mut set = String::new();
    for word in facts.features.as_deref().unwrap_or_default().split_whitespace().take(200) {
        let (name, on) = word.strip_prefix("NO_").map_or((word, true), |n| (n, false));
        match features.contains(&name) {
            true => drop(writeln!(set, "{name} = {on}")),
            false if name == ENERGY_AWARE && (!on || parent == ANDROID_4_9) => {} // generation of placement.eas
            false => out.diagnostics.push(Diagnostic::note(
                "sysfs::N01",
                0..0,
                format!("scheduler feature {}: not simulated", quoted(name)),
            )),
        }
    }
    let hz = facts.config.as_deref().and_then(ticks);
    let tunables = [facts.switched(), facts.tunables.clone()].concat();
    let told = facts.version().is_some() || hz.is_some() || !tunables.is_empty() || facts.energy_aware.is_some();
    if !told && policies.is_empty() && set.is_empty() {
        let message = "nothing of a kernel is recognised here: no version, no option and no feature that is simulated";
        let help = "name a configuration (/proc/config.gz, /boot/config-RELEASE), a list of scheduler features \
            (/sys/kernel/debug/sched/features), or --sysfs / or a capture of it";
        out.diagnostics = vec![Diagnostic::error("sysfs::E02", 0..0, message).help(help)];
        out.diagnostics.extend(facts.findings.iter().cloned());
        return out;
    }
    let version = facts.version().unwrap_or_else(|| "unknown".into());
    let version: String =
        version.chars().filter(|c| c.is_ascii_alphanumeric() || ".-_+".contains(*c)).take(64).collect();
    let mut text = format!("# Linux {version}, as captured; what is not set here is as in {parent}.\n");
    let _ =
        writeln!(text, "name     = \"{name}\"\ntitle    = \"Linux {version}, as captured\"\ninherits = \"{parent}\"");
    if let Some(hz) = hz {
        let _ = writeln!(text, "hz       = {hz}");
    }
    if !policies.is_empty() {
        let _ = write!(text, "\n[policies]\n{policies}");
    }
    if !set.is_empty() {
        let _ = write!(text, "\n[features]\n{set}");
    }
    let slots: Vec<&str> = tunables.iter().map(|(slot, ..)| *slot).collect();
    for (i, slot) in slots.iter().enumerate().filter(|(i, slot)| !slots[..*i].contains(slot)) {
        let _ = writeln!(text, "\n[{slot}]");
        for (_, name, value) in tunables[i..].iter().filter(|(of, ..)| of == slot) {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
    out.toml = Some(text);
    out
}

/// What a profile takes from its parent because the kernel did not tell.
fn not_known(facts: &KernelFacts, parent: &str) -> Vec<Diagnostic> {
    let warning = |code, message| Diagnostic::warning(code, 0..0, message);
    let mut out = Vec::new();
    let release = facts.version().unwrap_or_default();
    match (version(&release), why(&release, parent)) {
        (Some((major, minor)), Some(why)) => {
            let message = format!(
                "no profile of Linux {major}.{minor}: {parent} is taken ({why}), and what changed between them is as there"
            );
            out.push(warning("sysfs::W02", message));
        }
        (Some((major, minor)), None) if parent.starts_with("android-") && facts.android().is_none() => {
            out.push(warning(
                "sysfs::W02",
                format!("nothing tells whether this Linux {major}.{minor} is Android's: {parent} is taken"),
            ));
        }
        (Some(_), None) => {}
        (None, _) => out.push(warning("sysfs::W02", format!("no kernel version is told: taken as {parent}"))),
    }
    if facts.config.is_none() {
        let message = format!(
            "no configuration (proc/config.gz, boot/config-RELEASE): HZ and what is built in are as in {parent}"
        );
        out.push(warning("sysfs::W01", message));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::text_of;
    use super::*;
    use std::io;

    /// The profile of a kernel, and what is said of it, with the codes.
    fn profile(facts: &KernelFacts, parent: &str) -> (String, Vec<String>) {
        let Imported { toml, diagnostics } = kernel(facts, "mine", parent, &[]);
        let said = diagnostics.iter().map(|d| format!("{} {}", d.code, d.message)).collect();
        (toml.unwrap_or_else(|| panic!("{diagnostics:?}")), said)
    }

    #[test]
    fn a_kernel_without_a_profile() {
        let told = |release: &str, parent| {
            let facts = KernelFacts { release: Some(release.into()), ..KernelFacts::default() };
            kernel(&facts, "k", parent, &[]).diagnostics.swap_remove(0).message
        };
        let check = |release, parent, what: &str| assert!(told(release, parent).contains(what), "{release}");
        check("4.19.113", "linux-4.20", "no profile of Linux 4.19: linux-4.20 is taken (it holds from 4.16), and what");
        check("4.14.190", "linux-4.10", "linux-4.10 is taken (it is the last one before it)");
        check("2.6.32", "linux-3.13", "linux-3.13 is taken (there is none before it)");
    }

    #[test]
    fn a_kernel() {
        let facts = KernelFacts {
            config: Some(
                "# Linux/arm64 6.1.0 Kernel Configuration\nCONFIG_CPU_IDLE_GOV_TEO=y\nCONFIG_HZ_1000=y\n".into(),
            ),
            features: Some("GENTLE_FAIR_SLEEPERS NO_SIS_PROP WHATEVER".into()),
            ..KernelFacts::of(&|path| match path {
                "proc/sys/kernel/sched_latency_ns" => Some("18000000\n".into()),
                "sys/kernel/debug/sched/wakeup_granularity_ns" => Some("3000000\n".into()),
                "sys/devices/system/cpu/cpufreq/schedutil/rate_limit_us" => Some("2000\n".into()),
                "sys/kernel/debug/sched/nr_migrate" => Some("many\n".into()),
                _ => None,
            })
        };
        assert_eq!(facts.version().as_deref(), Some("6.1.0"));
        let out = kernel(&facts, "mine", "linux-6.1", &["GENTLE_FAIR_SLEEPERS", "SIS_PROP"]);
        let text = out.toml.unwrap();
        let class = "[class.cfs]\nsched_latency_ns = 18000000\nwakeup_granularity_ns = 3000000\n";
        let cpufreq = "[cpufreq.schedutil]\nrate_limit_us = 2000\n";
        for part in
            ["inherits = \"linux-6.1\"", "hz       = 1000", "cpuidle = \"teo\"", "SIS_PROP = false", class, cpufreq]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("nr_migrate"));
        assert_eq!(out.diagnostics.len(), 2);
        assert!(out.diagnostics[0].message.ends_with("nr_migrate: `many` is left out"), "{:?}", out.diagnostics);
    }

    #[test]
    fn android_or_not() {
        let of = |config: Option<&str>, release: &str| {
            let (config, release) = (config.map(String::from), Some(release.to_string()));
            KernelFacts { config, release, ..KernelFacts::default() }.android()
        };
        let x86 = "# Linux/x86 4.9.210 Kernel Configuration\nCONFIG_ANDROID=y\n";
        assert_eq!(of(Some(x86), "4.9.0-19"), Some(false));
        assert_eq!(of(None, "4.9.0-19-amd64"), Some(false));
        assert_eq!(of(Some("CONFIG_HZ=250\n"), "4.9.80-v7+"), Some(false));
        for option in ANDROIDS {
            assert_eq!(of(Some(&format!("CONFIG_HZ=250\n{option}=y\n")), "4.9.270-perf"), Some(true), "{option}");
        }
        assert_eq!((of(Some(x86), "6.6.30-android15"), of(None, "4.9.270-perf")), (Some(true), None));
        let told = |release: &str, parent| {
            let facts = KernelFacts { release: Some(release.into()), ..KernelFacts::default() };
            kernel(&facts, "k", parent, &[]).diagnostics.swap_remove(0).message
        };
        assert_eq!(
            told("4.9.270-perf", "android-4.9"),
            "nothing tells whether this Linux 4.9 is Android's: android-4.9 is taken"
        );
        assert!(told("6.9.1-android16", "android-6.6").starts_with("no profile of Linux 6.9: android-6.6 is taken"));
    }

    #[test]
    fn load_in_windows() {
        let with = |walt: char, parent: &str, sysctls: [&'static str; 2]| {
            let config = format!("# Linux/arm64 4.9.118 Kernel Configuration\nCONFIG_SCHED_WALT={walt}\n");
            let facts = KernelFacts::of(&|path| match path {
                "proc/config" => Some(config.clone()),
                _ => USE_WALT.iter().position(|name| path.ends_with(name)).map(|i| sysctls[i].to_string()),
            });
            let (text, said) = profile(&facts, parent);
            let told = said.iter().filter_map(|said| said.strip_prefix("sysfs::W03 ")).collect::<Vec<_>>().join("\n");
            (text.contains("[policies]\nload = \"walt\"\n"), told)
        };
        assert_eq!(with('y', "android-4.9", [""; 2]), (true, String::new()));
        assert_eq!(with('y', "android-4.9", ["1\n"; 2]), (true, String::new()));
        assert_eq!(with('y', "android-4.9", ["0\n"; 2]), (false, String::new()));
        let (on, told) = with('y', "android-4.9", ["1", "0"]);
        assert!(on && told.starts_with("sched_use_walt_task_util = 0: not simulated alone"), "{told}");
        for (walt, parent) in [('m', "linux-5.7"), ('y', "linux-4.10")] {
            let (on, told) = with(walt, parent, [""; 2]);
            assert!(!on && told.starts_with("CONFIG_SCHED_WALT: not simulated as this kernel has it"), "{told}");
        }
        assert_eq!(with('n', "linux-5.7", [""; 2]), (false, String::new()));
    }

    /// Of Android's kernels, before the sysctl.
    #[test]
    fn the_feature_that_switches_energy_aware_placement() {
        let with = |feature: &str, parent| {
            let facts = KernelFacts { release: Some("4.9.1-android".into()), ..KernelFacts::from_text(feature) };
            let (text, said) = profile(&facts, parent);
            let noted = said.iter().any(|said| said.contains("ENERGY_AWARE"));
            (text.contains("[placement.eas]\ngeneration = \"off\"\n"), noted)
        };
        assert_eq!(with("NO_ENERGY_AWARE", "android-4.9"), (true, false));
        assert_eq!(with("ENERGY_AWARE", "android-4.9"), (false, false));
        assert_eq!(with("ENERGY_AWARE", "linux-4.10"), (false, true));
    }

    #[test]
    fn clamps_of_the_system_are_told() {
        let said = |values: [&'static str; 3]| {
            let at = |path: &str| CLAMPS.iter().position(|(name, _)| path == format!("proc/sys/kernel/{name}"));
            let facts = KernelFacts::of(&|path| at(path).map(|i| values[i].into()));
            facts.findings.into_iter().map(|d| (d.code, d.message)).collect::<Vec<_>>()
        };
        assert_eq!(said(["1024\n"; 3]), []);
        let told = said(["1024", "512\n", "0"]);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told.iter().all(|(code, _)| *code == "sysfs::W03"));
        assert!(told[0].1.starts_with("sched_util_clamp_max = 512: not simulated; "), "{told:?}");
        assert!(told[1].1.starts_with("sched_util_clamp_min_rt_default = 0: not simulated; real-time"), "{told:?}");
    }

    /// Two clocks of two and four CPUs, each set in its own way.
    #[test]
    fn clocks_that_are_set_differently() {
        let with = |governors: [&'static str; 2]| {
            let files = move |path: &str| -> Option<String> {
                let text = match path {
                    "proc/sys/kernel/osrelease" => "6.1.0",
                    "proc/sys/kernel/sched_rt_runtime_us" => "-1\n",
                    "proc/sys/kernel/sched_autogroup_enabled" => "1",
                    "proc/config" => "CONFIG_HZ=250\nCONFIG_SCHED_AUTOGROUP=y\n",
                    "sys/kernel/debug/sched/fair_server/cpu0/runtime" => "50000000",
                    _ => match path.strip_prefix("sys/devices/system/cpu/")? {
                        "online" => "0-5",
                        "cpufreq/policy0/related_cpus" => "0 1",
                        "cpufreq/policy2/related_cpus" => "2 3 4 5",
                        "cpufreq/policy0/scaling_governor" => governors[0],
                        "cpufreq/policy2/scaling_governor" => governors[1],
                        "cpufreq/policy0/interactive/target_loads" => "80",
                        "cpufreq/policy2/interactive/target_loads" => "85 1000000:90\n",
                        // Of the hardware, not of the governor.
                        "cpufreq/policy0/boost" => "1",
                        "cpufreq/policy0/schedutil/rate_limit_us" => "500",
                        "cpufreq/conservative/freq_step" => "10",
                        "cpufreq/policy0/scaling_setspeed" => "<unsupported>",
                        _ => return None,
                    },
                };
                Some(text.into())
            };
            profile(&KernelFacts::of(&files), "linux-6.1")
        };
        let (text, said) = with(["interactive", "interactive"]);
        for part in [
            "cpufreq = \"interactive\"",
            "[class.rt]\nsched_rt_runtime_us = -1\n",
            "[class.deadline]\nfair_server_runtime_us = 50000\n",
            "[cpufreq.conservative]\nfreq_step_pct = 10\n",
            "[cpufreq.interactive]\ntarget_loads = \"85 1000000:90\"\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("boost") && !text.contains("setspeed"), "{text}");
        assert!(said[0].starts_with("sysfs::W04 interactive/target_loads differs: `80` on CPUs 0-1, "), "{said:?}");
        assert!(said[1].starts_with("sysfs::W03 CONFIG_SCHED_AUTOGROUP: not simulated") && said.len() == 2, "{said:?}");
        let (text, said) = with(["schedutil", "performance"]);
        assert!(text.contains("cpufreq = \"performance\"") && text.contains("rate_limit_us = 500"), "{text}");
        let differs = "sysfs::W04 the cpufreq governor differs: `schedutil` on CPUs 0-1, `performance` on CPUs 2-5; a profile has \
            one: `performance`, that of most CPUs";
        assert_eq!(said[0], differs);
    }

    /// A driver that chooses on its own calls that `powersave`; the governor of this name stands still.
    #[test]
    fn powersave_of_a_driver() {
        let with = |driver: Option<&'static str>, all: &'static str, governor: &'static str| {
            let files = move |path: &str| -> Option<String> {
                Some(match path.strip_prefix("sys/devices/system/cpu/") {
                    None if path == "proc/sys/kernel/osrelease" => "6.12.5\n".into(),
                    None if path == "proc/config" => "CONFIG_HZ=250\nCONFIG_CPU_FREQ_DEFAULT_GOV_SCHEDUTIL=y\n".into(),
                    Some("cpufreq/policy0/scaling_driver") => format!("{}\n", driver?),
                    Some("cpufreq/policy0/scaling_available_governors") => format!("{all}\n"),
                    Some("cpufreq/policy0/scaling_governor") => format!("{governor}\n"),
                    _ => return None,
                })
            };
            let (text, said) = profile(&KernelFacts::of(&files), "linux-6.12");
            (text.lines().find_map(|l| l.strip_prefix("cpufreq = ")).map(String::from), said.join("\n"))
        };
        let two = "performance powersave";
        let warned = |driver: &str| {
            format!(
                "sysfs::W01 cpufreq governor `powersave of the driver {driver}`: not simulated; the parent's is used"
            )
        };
        for driver in ["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"] {
            assert_eq!(with(Some(driver), two, "powersave"), (None, warned(driver)));
            assert_eq!(with(Some(driver), "", "powersave"), (None, warned(driver)));
        }
        assert_eq!(with(None, two, "powersave"), (None, warned("unknown")));
        let of_generic = (Some("\"powersave\"".into()), String::new());
        assert_eq!(with(Some("intel_cpufreq"), "schedutil performance powersave", "powersave"), of_generic);
        assert_eq!(with(Some("intel_pstate"), two, "performance").0.as_deref(), Some("\"performance\""));
    }

    #[test]
    fn the_idle_governor_of_old_kernels() {
        let with = |files: &[(&str, &str)]| {
            let of = |path: &str| files.iter().find(|(name, _)| path.ends_with(name)).map(|f| format!("{}\n", f.1));
            KernelFacts::of(&|path| path.starts_with("sys/devices/system/cpu/cpuidle/").then(|| of(path)).flatten())
                .cpuidle
        };
        assert_eq!(with(&[("/current_governor_ro", "teo")]).as_deref(), Some("teo"));
        assert_eq!(with(&[("/current_governor_ro", "teo"), ("/current_governor", "menu")]).as_deref(), Some("menu"));
        assert_eq!(with(&[]), None);
    }

    /// What an option that is left out takes away is left out of the profile, or told.
    #[test]
    fn options_that_are_left_out() {
        let with = |lines: &[&str]| {
            let config = format!("# Linux/arm64 6.12.5 Kernel Configuration\n{}\n", lines.join("\n"));
            let tunables = vec![("balance.load_balance", "nr_migrate", "8".to_string())];
            let facts = KernelFacts { tunables, ..KernelFacts::from_text(&config) };
            profile(&facts, "linux-6.12")
        };
        let (text, told) = with(&["CONFIG_UCLAMP_TASK=y", "CONFIG_UCLAMP_TASK_GROUP=y", "CONFIG_SCHED_CLUSTER=y"]);
        assert!(!text.contains("uclamp") && !text.contains("cluster") && told.is_empty(), "{text}{told:?}");
        for left_out in ["UCLAMP_TASK", "CPU_FREQ_GOV_SCHEDUTIL", "CPU_FREQ"] {
            let (text, _) = with(&[&format!("# CONFIG_{left_out} is not set")]);
            assert!(text.contains("[placement.cpu_util]\nuclamp = \"off\"\n"), "{left_out}: {text}");
        }
        let (text, _) = with(&["CONFIG_UCLAMP_TASK=y", "# CONFIG_UCLAMP_TASK_GROUP is not set"]);
        assert!(text.contains("[placement.cpu_util]\nuclamp = \"5.3\"\n"), "{text}");
        let (text, told) = with(&["# CONFIG_SCHED_CLUSTER is not set", "# CONFIG_ENERGY_MODEL is not set"]);
        assert!(text.contains("[balance.load_balance]\ncluster = \"off\"\nnr_migrate = 8\n"), "one table: {text}");
        assert!(text.contains("[placement.eas]\ngeneration = \"off\"\n") && told.is_empty(), "{text}{told:?}");
        for (option, _) in SIMULATED {
            let (_, told) = with(&[&format!("# {option} is not set")]);
            let begins = format!("sysfs::W03 {option} is not set: not simulated; ");
            assert!(told.len() == 1 && told[0].starts_with(&begins), "{told:?}");
        }
    }

    #[test]
    fn settings_of_governors_that_no_profile_has() {
        let with = |cpufreq: &'static str, cpuidle: &'static str, set: &[(&str, &str)]| {
            let files = |path: &str| -> Option<String> {
                Some(match path.strip_prefix("sys/devices/system/cpu/") {
                    Some("online") => "0-1".into(),
                    Some("cpuidle/current_governor") => cpuidle.into(),
                    Some("cpufreq/policy0/scaling_governor" | "cpufreq/policy1/scaling_governor") => cpufreq.into(),
                    _ => set.iter().find(|(file, _)| path.ends_with(file))?.1.into(),
                })
            };
            let told = KernelFacts::of(&files).findings.into_iter().map(|d| format!("{} {}", d.code, d.message));
            told.collect::<Vec<_>>()
        };
        let of_dbs =
            [("ondemand/ignore_nice_load", "1\n"), ("ondemand/powersave_bias", "100"), ("ondemand/io_is_busy", "0")];
        let told = [
            "sysfs::W03 ondemand/ignore_nice_load = 1: not simulated; here it is 0",
            "sysfs::W03 ondemand/powersave_bias = 100: not simulated; here it is 0",
        ];
        assert_eq!(with("ondemand", "menu", &of_dbs), told, "each once, whatever number of clocks have it");
        let of_halt = [("parameters/guest_halt_poll_ns", "50000"), ("parameters/guest_halt_poll_allow_shrink", "N\n")];
        let told = [
            "sysfs::W03 guest_halt_poll_ns = 50000: not simulated; here it is 200000",
            "sysfs::W03 guest_halt_poll_allow_shrink = N: not simulated; here it is Y",
        ];
        assert_eq!(with("schedutil", "haltpoll", &of_halt), told);
        assert!(with("schedutil", "menu", &of_halt).is_empty(), "nobody uses it");
    }

    #[test]
    fn what_is_no_kernel() {
        for text in ["", "x\n", "# wattif\n\nWhat-if analysis of Linux.", "CONFIG_FOO=y\n", "ONE TWO"] {
            let out = kernel(&KernelFacts::from_text(text), "mine", "linux-6.12", &["PLACE_LAG"]);
            assert!(out.toml.is_none() && out.diagnostics.len() == 1, "{text}: {:?}", out.diagnostics);
            assert_eq!(out.diagnostics[0].code, "sysfs::E02", "{text}");
        }
        let told = |text: &str| {
            let out = kernel(&KernelFacts::from_text(text), "mine", "linux-6.12", &["PLACE_LAG"]);
            assert!(out.toml.is_some(), "{text}: {:?}", out.diagnostics);
            out.diagnostics.iter().map(|d| format!("{} {}", d.code, d.message)).collect::<Vec<_>>().join("\n")
        };
        assert!(told("# Linux/x86 6.18.44 Kernel Configuration\n").contains("no profile of Linux 6.18: linux-6.12"));
        assert_eq!(told("# Linux/x86 6.12.1 Kernel Configuration\n"), "");
        let (of_200, _) = profile(&KernelFacts::from_text("CONFIG_HZ_200=y\nCONFIG_HZ=200\n"), "linux-6.12");
        assert!(of_200.contains("hz       = 200\n"));
        assert!(told("CONFIG_HZ_250=y\n").contains("no kernel version is told: taken as linux-6.12"));
        assert!(told("NO_PLACE_LAG").contains("no configuration"));
    }

    #[test]
    fn facts_of_a_kernel_that_a_profile_lacks_words_for() {
        let options = "CONFIG_PREEMPT_RT=y\nCONFIG_HZ_PERIODIC=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_CPU_IDLE_GOV_MENU=y\n\
            CONFIG_CPU_IDLE_GOV_LADDER=y\n";
        let files = |idle: Option<&'static str>| {
            KernelFacts::of(&move |path| match path {
                "proc/sys/kernel/osrelease" => Some("6.12.1\n".into()),
                "proc/sys/kernel/sched_energy_aware" => Some("0\n".into()),
                "proc/config" => Some(options.into()),
                "sys/devices/system/cpu/cpuidle/current_governor" => idle.map(String::from),
                _ => None,
            })
        };
        let (text, said) = profile(&files(Some("qcom-lpm\n")), "linux-6.12");
        let said: Vec<&str> = said.iter().filter_map(|said| said.split_once(' ')?.1.split([':', ';']).next()).collect();
        let options = ["CONFIG_PREEMPT_RT", "CONFIG_HZ_PERIODIC", "CONFIG_NO_HZ_FULL"];
        assert_eq!(said, [&["cpuidle governor `qcom-lpm`"][..], &options].concat());
        assert!(text.contains("[placement.eas]\ngeneration = \"off\"\n") && !text.contains("cpuidle"), "{text}");
        let (text, _) = profile(&files(None), "linux-6.12");
        assert!(text.contains("cpuidle = \"ladder\""), "{text}");
    }

    #[test]
    fn a_configuration_in_proc() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut packed, b"CONFIG_HZ_300=y\n").unwrap();
        let packed = packed.finish().unwrap();
        let with = |at: &'static str| {
            let packed = packed.clone();
            KernelFacts::of(&move |path| match path {
                "proc/sys/kernel/osrelease" => Some("6.12.1\n".into()),
                _ => (path == at).then(|| text_of(&packed).unwrap()),
            })
        };
        for at in ["proc/config.gz", "boot/config-6.12.1", "lib/modules/6.12.1/config", "proc/config"] {
            let (text, said) = profile(&with(at), "linux-6.12");
            assert!(text.contains("hz       = 300") && said.is_empty(), "{at}");
        }
        let (_, said) = profile(&with("elsewhere"), "linux-6.12");
        assert!(said[0].contains("HZ"), "{said:?}");
        assert!(text_of(&packed[..packed.len() - 9]).is_err() && text_of(b"\xff").is_err());
    }

    #[test]
    fn a_child_that_runs_first_is_told() {
        let told = |value: &'static str| {
            let facts = KernelFacts::of(&|path| path.ends_with("/sched_child_runs_first").then(|| value.into()));
            facts.findings.into_iter().map(|d| format!("{} {}", d.code, d.message)).collect::<Vec<_>>()
        };
        assert!(told("0\n").is_empty());
        assert_eq!(
            told("1\n"),
            ["sysfs::W03 sched_child_runs_first = 1: not simulated; a new thread waits as others do here, as with 0"]
        );
    }

    #[test]
    fn a_scheduler_of_bpf_and_lazy_preemption_are_told() {
        let told = |config: &'static str, files: &'static [(&'static str, &'static str)]| {
            let facts = KernelFacts::of(&move |path| match path {
                "proc/sys/kernel/osrelease" => Some("6.13.1\n".into()),
                "proc/config" => Some(format!("CONFIG_HZ=250\n{config}")),
                _ => files.iter().find(|(file, _)| *file == path).map(|(_, text)| format!("{text}\n")),
            });
            let said =
                kernel(&facts, "k", "linux-6.12", &[]).diagnostics.into_iter().filter(|d| d.code == "sysfs::W03");
            said.filter_map(|d| d.message.split_once(": not simulated").map(|m| m.0.to_string())).collect::<Vec<_>>()
        };
        let lazy = ["CONFIG_PREEMPT_LAZY"];
        const USED: &str = "sys/kernel/debug/sched/preempt";
        const STATE: &str = "sys/kernel/sched_ext/state";
        assert_eq!(told("CONFIG_PREEMPT_LAZY=y\n", &[]), lazy);
        assert_eq!(told("", &[(USED, "none voluntary full (lazy)")]), lazy);
        assert_eq!(told("", &[("proc/cmdline", "ro preempt=lazy")]), lazy);
        assert!(told("CONFIG_PREEMPT_LAZY=y\n", &[(USED, "none voluntary (full) lazy")]).is_empty());
        assert!(told("CONFIG_PREEMPT_LAZY=y\n", &[("proc/cmdline", "preempt=full")]).is_empty());
        assert!(told("", &[(STATE, "disabled")]).is_empty());
        assert_eq!(
            told("", &[(STATE, "enabled"), (SCHED_EXT_OPS, "rusty_1.0.5")]),
            ["sched_ext has `rusty_1.0.5` loaded"]
        );
        assert_eq!(told("", &[(STATE, "enabled")]), ["sched_ext has a scheduler loaded"]);
    }
}
