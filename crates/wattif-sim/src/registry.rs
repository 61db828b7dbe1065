//! Name → policy: its slot, its manual page (the header of its file), its tunables, and how it is built.
//!
//! Adding a policy: one file, one line in [`POLICIES`], one arm in the `build_*` function of its slot (`registry/build.rs`).
//! `registry/check.rs` says what is wrong with a kernel profile; `notes.rs`, `effect.rs` and `here.rs`, what of its settings a
//! user may not expect, or changes nothing.

mod build;
mod check;
mod effect;
mod here;
mod notes;

pub(crate) use build::{build, energy_model};
pub use check::{Refusal, check};
pub use effect::without_effect;
pub use here::without_effect_here;
pub use notes::notes;

use crate::sched::balance::{self, cpu_power};
use crate::{cpufreq, cpuidle};
use wattif_model::kernel::{KernelSpec, Slot, Value};
use wattif_model::platform::Platform;
use wattif_model::workload::models::manual;

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
    /// The same with numbers that are not 0.
    pub const PAIRS_FROM_1: &'static str = "a number from 1 on, then kHz:number with ascending frequencies";
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
    policy!("rt_avg", Load, false, "sched/load/rt_avg.rs", crate::sched::load::rt_avg::TUNABLES),
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
    policy!("ttwu_queue", Placement, false, "sched/ttwu_queue.rs", crate::sched::ttwu_queue::TUNABLES),
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
    policy!("cpuidle_driver", Cpuidle, false, "cpuidle/cpuidle_driver.rs", cpuidle::cpuidle_driver::TUNABLES),
    policy!("default_idle", Cpuidle, false, "cpuidle/default_idle.rs", cpuidle::default_idle::TUNABLES),
    policy!("pm_qos", Cpuidle, false, "cpuidle/pm_qos.rs", cpuidle::pm_qos::TUNABLES),
    policy!("poll_state", Cpuidle, false, "cpuidle/poll_state.rs", cpuidle::poll_state::TUNABLES),
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

/// The policy in a slot where nobody names one.
pub const fn default_policy(slot: Slot) -> &'static str {
    match slot {
        Slot::Class => "eevdf",
        Slot::Load => "pelt",
        Slot::Placement => "select_task_rq_fair",
        Slot::Balance => "load_balance",
        Slot::Cpufreq => "schedutil",
        Slot::Cpuidle => "menu",
    }
}

/// The policy in a slot; profiles are checked, so there is one.
fn chosen(kernel: &KernelSpec, slot: Slot) -> &str {
    kernel.policies.get(&slot).map_or(default_policy(slot), String::as_str)
}

/// The idle governor that the platform's driver prefers, if this kernel heeds that ([`cpuidle::cpuidle_driver`]); for where nobody
/// names one.
#[doc(alias = "cpuidle_register_driver")]
pub fn preferred_governor<'a>(kernel: &KernelSpec, platform: &'a Platform) -> Option<&'a str> {
    let heeded = Tunables::of(kernel, "cpuidle_driver").text("governor") == "preferred";
    platform.cpuidle_governor.as_deref().filter(|_| heeded)
}

/// Does the idle governor need a first pass that finds out the future?
pub fn needs_foresight(kernel: &KernelSpec) -> bool {
    chosen(kernel, Slot::Cpuidle) == "oracle"
}

#[cfg(test)]
mod tests {
    use super::check::range;
    use super::*;

    #[test]
    fn tunables_say_what_they_take() {
        for (policy, t) in POLICIES.iter().flat_map(|p| p.tunables.iter().map(move |t| (p, t))) {
            let path = format!("{}.{}", policy.name, t.name);
            assert!(!t.allowed.is_empty(), "{path}");
            // The default is of its kind too: among the words, within a range, or a word that stands for no number.
            let number: Option<i64> = t.default.parse().ok();
            let within = t.allowed.iter().filter_map(|a| range(a)).any(|r| number.is_some_and(|n| r.contains(&n)));
            let steps = check::pairs(t).is_some_and(|(_, parse)| parse(t.default).is_some());
            let same = t.default == "same";
            assert!(within || steps || same || t.allowed.contains(&t.default), "{path}");
        }
    }
}
