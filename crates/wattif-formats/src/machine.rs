//! A machine as its firmware or its kernel describes it, and the platform file made of that. What the description lacks is
//! estimated where a replay can do without (costs, noise) and said, and so are operating points between a lowest and a highest one;
//! beyond these they are never invented.

use crate::platform_toml::{self, MAX_UW};
use std::fmt::Write as _;
use wattif_model::check::Diagnostic;

/// A machine in the making.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub name: String,
    pub title: String,
    pub source: String,
    /// Ticks a second, where anything tells them.
    pub hz: Option<i64>,
    /// The kernel's numbers of its CPUs, where it has others.
    pub kernel_cpus: Vec<u32>,
    /// The kernel takes all CPUs for equally fast.
    pub capacity_untold: bool,
    pub domains: Vec<Domain>,
    pub clusters: Vec<Cluster>,
    /// Lists of CPUs.
    pub llc: Vec<Vec<u32>>,
    pub cores: Vec<Vec<u32>>,
    /// Clusters of the scheduler; none where they are cores or whole caches.
    pub l2: Vec<Vec<u32>>,
    pub packages: Vec<Vec<u32>>,
    pub nodes: Vec<Vec<u32>>,
    pub trust: Vec<String>,
}

/// CPUs of one clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domain {
    pub cpus: Vec<u32>,
    pub core: String,
    pub capacity: u32,
    pub transition_us: u64,
    /// Nothing told it.
    pub transition_assumed: bool,
    /// Operating points between the lowest and the highest are estimated: so many kHz apart.
    pub estimated_by: Option<u64>,
    pub opps: Vec<Opp>,
}

/// An operating point; `uw` of one busy CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opp {
    pub khz: u64,
    pub uv: Option<u64>,
    pub uw: Option<u64>,
}

/// CPUs that sleep together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    pub cpus: Vec<u32>,
    pub idle: Vec<Idle>,
}

/// An idle state as advertised, and what is known of the hardware.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Idle {
    pub name: String,
    pub scope: &'static str,
    pub exit_us: u64,
    pub residency_us: u64,
    pub actual_entry_us: u64,
    pub actual_exit_us: u64,
    /// The CPU spins in it.
    pub polling: bool,
    /// Known and switched off: the states behind it keep their index.
    pub disabled: bool,
}

/// `0-3,6`.
pub(crate) fn list(cpus: &[u32]) -> String {
    cpus.iter().map(|&c| wattif_model::CpuId(c)).collect::<wattif_model::CpuSet>().to_string()
}

impl Domain {
    /// Takes out powers beyond what a platform file may hold, and with them those of the whole domain: an energy model is of all
    /// operating points or none.
    pub fn drop_absurd_powers(&mut self, code: &'static str, cpus: &[u32]) -> Option<Diagnostic> {
        let greatest = self.opps.iter().filter_map(|o| o.uw).max().filter(|uw| *uw > MAX_UW as u64)?;
        self.opps.iter_mut().for_each(|o| o.uw = None);
        let message = format!(
            "CPUs {}: {greatest} µW at an operating point is no power of a CPU ({MAX_UW} is the limit); the powers of these CPUs \
             were left out",
            list(cpus)
        );
        Some(Diagnostic::warning(code, 0..0, message))
    }
}

impl Machine {
    /// Every operating point has a power.
    fn has_powers(&self) -> bool {
        self.domains.iter().all(|d| !d.opps.is_empty() && d.opps.iter().all(|o| o.uw.is_some()))
    }

    /// The platform file; none, and why, where the machine contradicts itself.
    pub fn checked(&self, code: &'static str, findings: &mut Vec<Diagnostic>) -> Option<String> {
        let toml = self.to_toml();
        let parsed = platform_toml::parse(&toml, &Default::default());
        if parsed.platform.is_some() {
            return Some(toml);
        }
        findings.extend(parsed.diagnostics.iter().filter(|d| d.is_error()).map(|d| {
            let line = toml.lines().nth(d.line_column(&toml).0 - 1).unwrap_or_default();
            let line: String = line.chars().take(120).collect();
            let message = format!("this would be no platform: {} (`{}`)", d.message, line.trim());
            Diagnostic::error(code, 0..0, message).help("what describes this machine is damaged, or contradicts itself")
        }));
        None
    }

    /// The platform file.
    fn to_toml(&self) -> String {
        let mut out = String::new();
        let text = |s: &str| {
            let plain: String = s.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
        };
        let _ = writeln!(out, "# {}: made by wattif from {}.", clean(&self.title), clean(&self.source));
        let _ = writeln!(out, "name  = {}\ntitle = {}", text(&self.name), text(&self.title));
        let _ = match self.hz {
            Some(hz) => writeln!(out, "hz    = {hz}"),
            None => writeln!(out, "hz    = 250  # assumed: nothing tells it"),
        };
        if !self.kernel_cpus.is_empty() {
            let _ = writeln!(
                out,
                "kernel_cpus = \"{}\"  # of CPUs 0, 1, … here: traces have these numbers",
                list(&self.kernel_cpus)
            );
        }
        if self.capacity_untold {
            let _ = writeln!(out, "capacity_untold = true  # the kernel takes every CPU for 1024");
        }
        let lines: Vec<String> = self.trust.iter().map(|t| format!("  {},\n", text(t))).collect();
        let _ = writeln!(out, "trust = [\n{}]", lines.concat());
        if self.cores.iter().any(|c| c.len() > 1) {
            let most = self.cores.iter().map(Vec::len).max().unwrap_or(1);
            let share: Vec<String> = (0..most).map(|n| (1024 * 5 / 4 / (n as u32 + 1)).min(1024).to_string()).collect();
            let _ = writeln!(out, "smt_share = [{}]  # estimated", share.join(", "));
        }
        if self.has_powers() {
            let _ = writeln!(out, "\n[power]\nunit    = \"energy_model\"\nsourced = true");
        }
        let _ = writeln!(out, "\n[topology]");
        let parts = [&self.cores, &self.l2, &self.llc, &self.packages, &self.nodes];
        for (key, parts) in ["core", "l2", "llc", "package", "node"].into_iter().zip(parts) {
            if !parts.is_empty() {
                let parts: Vec<String> = parts.iter().map(|p| format!("\"{}\"", list(p))).collect();
                let _ = writeln!(out, "{key} = [{}]", parts.join(", "));
            }
        }
        for d in &self.domains {
            let _ = writeln!(out, "\n[[domain]]\ncpus = \"{}\"\ncore = {}", list(&d.cpus), text(&d.core));
            let assumed = if d.transition_assumed { "  # assumed: nothing tells it" } else { "" };
            let estimated =
                |khz| format!("  # estimated: every {} MHz between the ends, which alone are told", khz / 1000);
            let estimated = d.estimated_by.map_or(String::new(), estimated);
            let (capacity, transition_us) = (d.capacity, d.transition_us);
            let _ =
                writeln!(out, "capacity = {capacity}\ntransition_us = {transition_us}{assumed}\nopps = [{estimated}");
            for o in &d.opps {
                let uv = o.uv.map_or(String::new(), |uv| format!(", uv = {uv}"));
                let uw = o.uw.filter(|_| self.has_powers()).map_or(String::new(), |uw| format!(", uw = {uw}"));
                let _ = writeln!(out, "  {{ khz = {}{uv}{uw} }},", o.khz);
            }
            let _ = writeln!(out, "]");
        }
        for c in &self.clusters {
            let _ = writeln!(out, "\n[[cluster]]\ncpus = [\"{}\"]\nidle = [", list(&c.cpus));
            for i in &c.idle {
                let poll = if i.polling { "polling = true, " } else { "" };
                let off = if i.disabled { "disabled = true, " } else { "" };
                let _ = writeln!(
                    out,
                    "  {{ name = {}, scope = \"{}\", {poll}{off}advertised = {{ exit_us = {}, residency_us = {} }}, actual = {{ entry_us = {}, exit_us = {} }} }},",
                    text(&i.name),
                    i.scope,
                    i.exit_us,
                    i.residency_us,
                    i.actual_entry_us,
                    i.actual_exit_us
                );
            }
            let _ = writeln!(out, "]");
        }
        out + ESTIMATED
    }
}

fn clean(s: &str) -> String {
    s.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Costs and noise of a machine nobody measured.
const ESTIMATED: &str = r#"
[costs]
context_switch_us = 2
wakeup_ns         = 1_600
ipi_us            = 2
timer_irq_us      = 2
tick_ns           = 1_600
migration_us      = 8
migration_llc_us  = 25
source            = "estimated, not measured on this machine"

[noise]
irq_jitter_us = 1
work_ppm      = 2_000
source        = "estimated"
"#;

/// The state every CPU has.
pub(crate) fn wfi() -> Idle {
    Idle {
        name: "WFI".into(),
        scope: "cpu",
        exit_us: 1,
        residency_us: 1,
        actual_entry_us: 0,
        actual_exit_us: 1,
        polling: false,
        disabled: false,
    }
}

/// Is every part of `middle` within one of `large`, one of them larger than its part of `small` and smaller than that?
pub(crate) fn between(small: &[Vec<u32>], middle: &[Vec<u32>], large: &[Vec<u32>]) -> bool {
    let around = |part: &Vec<u32>| large.iter().find(|l| part.iter().all(|c| l.contains(c)));
    let of = |cpu: u32| small.iter().find(|s| s.contains(&cpu)).map_or(1, Vec::len);
    let real = |part: &Vec<u32>| part.len() > of(part[0]) && around(part).is_some_and(|l| l.len() > part.len());
    middle.iter().all(|part| around(part).is_some()) && middle.iter().any(real)
}

/// CPUs 0, 1, … by what each is of, in the order of their first.
pub(crate) fn alike<K: PartialEq>(of: impl Iterator<Item = K>) -> Vec<Vec<u32>> {
    let mut groups: Vec<(K, Vec<u32>)> = Vec::new();
    for (cpu, key) in (0..).zip(of) {
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, group)) => group.push(cpu),
            None => groups.push((key, vec![cpu])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// CPUs of the same states and the same `K` are a cluster.
pub(crate) fn clusters<K: PartialEq>(cpus: impl Iterator<Item = (u32, K, Vec<Idle>)>) -> Vec<Cluster> {
    let mut out: Vec<(K, Cluster)> = Vec::new();
    for (cpu, key, idle) in cpus {
        match out.iter_mut().find(|(k, c)| *k == key && c.idle == idle) {
            Some((_, cluster)) => cluster.cpus.push(cpu),
            None => out.push((key, Cluster { cpus: vec![cpu], idle })),
        }
    }
    out.into_iter().map(|(_, cluster)| cluster).collect()
}

/// States of a CPU that take the whole cluster down say so in their name alone.
pub(crate) fn scope_by_name(name: &str) -> &'static str {
    if name.to_lowercase().contains("cluster") { "cluster" } else { "cpu" }
}
