//! Scheduling keys of tasks and phases: policy, priority, slices and deadlines, clamps, CPUs, groups.

use super::Dialect;
use super::json::{Json, Member, Node, Span};
use super::lints::Report;
use super::values;
use crate::words::quoted;
use wattif_model::workload::{Policy, SchedAttr};
use wattif_model::{CpuId, CpuSet, Ns};

/// The scheduling keys an object names; `None`: not named.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    pub policy: Option<Policy>,
    pub priority: Option<i64>,
    /// `dl-runtime`, `dl-period`, `dl-deadline`, µs; 0 counts as not named.
    pub runtime: Option<u64>,
    pub period: Option<u64>,
    pub deadline: Option<u64>,
    pub util_min: Option<u16>,
    pub util_max: Option<u16>,
    /// Where the first of them stands; `None` when there is none.
    pub span: Option<Span>,
    /// Where the first of `util_min` and `util_max` stands.
    pub clamp_span: Option<Span>,
    /// Where a `priority` other than 0 stands.
    priority_span: Option<Span>,
    /// Where `dl-runtime` stands, unless it is 0; and which of the other two, or of their aliases, is the first, and where.
    runtime_span: Option<Span>,
    deadline_span: Option<(&'static str, Span)>,
    /// What [`Keys::settle`] found.
    settled: Option<SchedAttr>,
}

/// The kernel takes no less (`DL_SCALE`). The shortest and longest period are the kernel's sysctls, so that a run alone knows them.
const LEAST_BUDGET: Ns = Ns(1024);

/// The policy a name stands for.
pub(super) fn policy(member: &Member, report: &mut Report) -> Option<Policy> {
    let name = values::text(member, report)?;
    let found = Policy::by_name(name);
    if found.is_none() {
        report.error("rtapp::E06", member.value.span.clone(), format!("unknown policy {}", quoted(name)));
    }
    found
}

/// Is `priority` the nice value? rt-app sets none under SCHED_IDLE, where it would change no weight either.
fn is_nice(policy: Policy) -> bool {
    matches!(policy, Policy::Normal | Policy::Batch)
}

impl Keys {
    /// Read the keys of a task (`legacy`: with the aliases `runtime`, `period`, `deadline`, in this dialect) or phase.
    pub fn read(members: &[Member], legacy: Option<Dialect>, report: &mut Report) -> Keys {
        let mut keys = Keys::default();
        for name in super::keys::SCHED {
            let Some(m) = values::find(members, name) else { continue };
            keys.span.get_or_insert_with(|| m.name_span.clone());
            if name.starts_with("util_") {
                keys.clamp_span.get_or_insert_with(|| m.name_span.clone());
            }
            match *name {
                "policy" => keys.policy = policy(m, report),
                "priority" => keys.priority = values::int(m, -20..=99, report),
                "dl-runtime" => keys.runtime = nonzero(m, report),
                "dl-period" => keys.period = nonzero(m, report),
                "dl-deadline" => keys.deadline = nonzero(m, report),
                "util_min" => keys.util_min = clamp(m, report),
                _ => keys.util_max = clamp(m, report),
            }
            let at = || m.name_span.clone();
            match *name {
                "priority" => keys.priority_span = keys.priority.filter(|p| *p != 0).map(|_| at()),
                "dl-runtime" => keys.runtime_span = keys.runtime.map(|_| at()),
                "dl-period" if keys.period.is_some() => keys.deadline_span = Some(("dl-period", at())),
                "dl-deadline" if keys.deadline.is_some() => {
                    keys.deadline_span.get_or_insert_with(|| ("dl-deadline", at()));
                }
                _ => {}
            }
        }
        if let Some(dialect) = legacy {
            keys.aliases(members, dialect, report);
        }
        keys
    }

    /// `runtime`, `period` and `deadline` of a task count where the `dl-` key is absent or 0. rt-app has given `dl-period` and
    /// `dl-deadline` their defaults by then: an alias behind a `dl-` key that they follow never counts.
    fn aliases(&mut self, members: &[Member], dialect: Dialect, report: &mut Report) {
        let (budget, length) = (self.runtime.is_some(), self.runtime.or(self.period).is_some());
        let first = if budget { "dl-runtime" } else { "dl-period" };
        let slots = [
            ("runtime", &mut self.runtime, false),
            ("period", &mut self.period, budget),
            ("deadline", &mut self.deadline, length),
        ];
        for (name, slot, defaulted) in slots {
            let found = members.iter().find(|m| m.name == name); // a repeated `runtime` is an event from the second on
            let Some(m) = found.filter(|m| slot.is_none() && matches!(m.value.value, Json::Number(_))) else {
                continue;
            };
            let value = nonzero(m, report);
            if value.is_some() && defaulted {
                let message =
                    format!("`{name}` beside `{first}`: rt-app ignores it, as dl-{name} follows `{first}` first");
                let help = format!("call it `dl-{name}`");
                let at = m.name_span.clone();
                if dialect == Dialect::RtApp {
                    report.warning("rtapp::W06", at, message).help(help);
                    continue;
                }
                report.note("rtapp::N04", at, message).help(help);
            }
            *slot = value;
            if name != "runtime" && slot.is_some() {
                self.deadline_span.get_or_insert_with(|| (name, m.name_span.clone()));
            }
            self.span.get_or_insert_with(|| m.name_span.clone());
        }
    }

    /// These keys applied on top of `base`, as rt-app does at the start of a thread or phase iteration.
    pub fn apply(&self, base: SchedAttr) -> SchedAttr {
        let (util_min, util_max) = (base.util_min, base.util_max);
        let mut attr = base;
        if let Some(policy) = self.policy {
            attr = SchedAttr { policy, util_min, util_max, ..SchedAttr::default() };
            attr.rt_priority = if policy.is_rt() { 10 } else { 0 };
        } else if let Some(first) = self.settled {
            attr = SchedAttr { util_min, util_max, ..first };
            if first.policy != Policy::Deadline {
                // A slice that is not named stays, unless the policy changes.
                attr.runtime = if base.policy == first.policy { base.runtime } else { Ns::ZERO };
            }
        }
        match self.priority {
            Some(nice) if is_nice(attr.policy) => attr.nice = nice.clamp(-20, 19) as i8,
            Some(priority) if attr.policy.is_rt() => attr.rt_priority = priority.clamp(1, 99) as u8,
            _ => {}
        }
        match attr.policy {
            Policy::Deadline => self.apply_deadline(&mut attr),
            Policy::Normal | Policy::Batch => {
                if let Some(slice) = self.runtime {
                    attr.runtime = Ns::from_us(slice);
                }
            }
            _ => {}
        }
        if attr.policy != Policy::Deadline {
            attr.util_min = self.util_min.or(attr.util_min);
            attr.util_max = self.util_max.or(attr.util_max);
        }
        attr
    }

    /// A phase with a priority or times but no policy was executed first with `attr`: rt-app then puts policy and priority into
    /// the phase's own data, where every later pass finds them, whatever the thread has by then.
    pub fn settle(&mut self, attr: &SchedAttr) {
        let named =
            self.priority.is_some() || self.runtime.is_some() || self.period.is_some() || self.deadline.is_some();
        self.settled = Some(*attr).filter(|_| self.policy.is_none() && named);
    }

    /// Keys that mean nothing under the policy: rt-app takes them without a word.
    pub fn lint_unused(&self, attr: &SchedAttr, report: &mut Report) {
        let policy = attr.policy.name();
        let mut unused = |span: &Option<Span>, message: String| {
            if let Some(span) = span.clone() {
                report.warning("rtapp::W06", span, message);
            }
        };
        match attr.policy {
            Policy::Deadline => {
                let clamps =
                    "`util_min` and `util_max` have no effect under SCHED_DEADLINE: rt-app does not apply them";
                unused(&self.clamp_span, clamps.into());
                let priority = "`priority` has no effect under SCHED_DEADLINE, whose tasks have none";
                unused(&self.priority_span, priority.into());
                return;
            }
            Policy::Normal | Policy::Batch => {}
            _ => {
                if attr.policy == Policy::Idle {
                    let priority = "`priority` has no effect under SCHED_IDLE: rt-app sets a nice value under \
                                    SCHED_OTHER and SCHED_BATCH";
                    unused(&self.priority_span, priority.into());
                }
                let message = format!(
                    "`dl-runtime` has no effect under {policy}: it is the budget under SCHED_DEADLINE, and a slice under SCHED_OTHER and SCHED_BATCH"
                );
                unused(&self.runtime_span, message);
            }
        }
        if let Some((name, span)) = &self.deadline_span {
            unused(&Some(span.clone()), format!("`{name}` has no effect under {policy}, only under SCHED_DEADLINE"));
        }
    }

    /// Period defaults to the budget, deadline to the period.
    fn apply_deadline(&self, attr: &mut SchedAttr) {
        if self.runtime.is_none() && self.period.is_none() && self.deadline.is_none() {
            return;
        }
        let runtime = self.runtime.map_or(attr.runtime, Ns::from_us);
        let period = self.period.map_or(runtime, Ns::from_us);
        (attr.runtime, attr.period) = (runtime, period);
        attr.deadline = self.deadline.map_or(period, Ns::from_us);
    }

    /// Refuse what `sched_setattr` (or rt-app's own check) would refuse at run time; `when` begins the sentence.
    pub fn validate(&self, attr: &SchedAttr, when: &str, report: &mut Report) {
        let Some(span) = self.span.clone() else { return };
        let (name, priority) = (attr.policy.name(), self.priority.unwrap_or(attr.rt_priority.max(1) as i64));
        if is_nice(attr.policy) && self.priority.is_some_and(|p| !(-20..=19).contains(&p)) {
            let message = format!("{when}priority {priority} is a nice value under {name}: -20..=19");
            report
                .error("rtapp::E14", span.clone(), message)
                .help("rt-app checks it when the thread starts, and exits with 1");
        }
        let mut refuse = |why: String| {
            report.error("rtapp::E14", span.clone(), format!("{when}{why}"));
        };
        if attr.policy.is_rt() && !(1..=99).contains(&priority) {
            refuse(format!("priority {priority} under {name}: 1..=99"));
        }
        if attr.policy == Policy::Deadline {
            let ordered = attr.runtime.0 > 0 && attr.runtime <= attr.deadline && attr.deadline <= attr.period;
            if !ordered {
                refuse("SCHED_DEADLINE needs 0 < dl-runtime <= dl-deadline <= dl-period".into());
            } else if attr.runtime < LEAST_BUDGET {
                refuse("SCHED_DEADLINE needs a dl-runtime of at least 2 µs".into());
            }
        }
        if let (Some(min), Some(max)) = (attr.util_min, attr.util_max)
            && min > max
        {
            refuse(format!("util_min {min} is above util_max {max}"));
        }
    }
}

fn nonzero(member: &Member, report: &mut Report) -> Option<u64> {
    values::us(member, report).filter(|us| *us > 0)
}

/// -1 leaves the clamp as it is.
fn clamp(member: &Member, report: &mut Report) -> Option<u16> {
    values::int(member, -1..=1024, report).and_then(|v| u16::try_from(v).ok())
}

/// The value of `cpus`: an array of numbers; in the lenient dialects also strings such as `"0-3,6"`.
pub(super) fn cpus(member: &Member, dialect: Dialect, nr_cpus: Option<usize>, report: &mut Report) -> Option<CpuSet> {
    let mut set = CpuSet::default();
    let errors = report.errors();
    let nodes = match &member.value.value {
        Json::Array(items) => &items[..],
        _ => std::slice::from_ref(&member.value),
    };
    for node in nodes {
        match &node.value {
            Json::Number(_) if matches!(member.value.value, Json::Array(_)) => {
                let item = Member { name: "cpus".into(), name_span: node.span.clone(), value: node.clone() };
                let cpu = values::int(&item, 0..=(CpuSet::MAX_CPUS as i64 - 1), report)?;
                insert(&mut set, cpu as u32..=cpu as u32, nr_cpus, node, report);
            }
            Json::Text(list) if dialect != Dialect::RtApp => {
                report.note(
                    "rtapp::N03",
                    node.span.clone(),
                    "a CPU list as a string: rt-app takes an array of integers",
                );
                cpulist(list, &mut set, nr_cpus, node, report);
            }
            other => {
                let message = format!("`cpus` must be an array of integers, not {}", other.kind());
                report.error("rtapp::E09", node.span.clone(), message).help("write [0, 1, 2, 3]");
            }
        }
    }
    if set.is_empty() {
        if report.errors() == errors {
            report.error(
                "rtapp::E09",
                member.value.span.clone(),
                "`cpus` names no CPU: the kernel refuses an empty set",
            );
        }
        return None;
    }
    Some(set)
}

fn cpulist(list: &str, set: &mut CpuSet, nr_cpus: Option<usize>, node: &Node, report: &mut Report) {
    for piece in list.split(',') {
        let (lo, hi) = piece.split_once('-').unwrap_or((piece, piece));
        match (lo.trim().parse::<u32>(), hi.trim().parse::<u32>()) {
            (Ok(lo), Ok(hi)) if lo <= hi && (hi as usize) < CpuSet::MAX_CPUS => {
                insert(set, lo..=hi, nr_cpus, node, report)
            }
            _ => {
                let message = format!("{} is not a CPU list such as `0-3,6`", quoted(list));
                report.error("rtapp::E09", node.span.clone(), message);
                return;
            }
        }
    }
}

fn insert(
    set: &mut CpuSet,
    cpus: std::ops::RangeInclusive<u32>,
    nr_cpus: Option<usize>,
    node: &Node,
    report: &mut Report,
) {
    let hi = *cpus.end();
    if let Some(nr) = nr_cpus.filter(|nr| hi as usize >= *nr) {
        let message = format!("CPU {hi} does not exist: the platform has {nr} (0..={})", nr.saturating_sub(1));
        report.error("rtapp::E09", node.span.clone(), message);
    }
    cpus.for_each(|c| set.insert(CpuId(c)));
}
