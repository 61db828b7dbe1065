//! Kernel profiles: TOML that names one policy of each kind, tunables that differ from their defaults, and features.
//!
//! ```toml
//! name     = "linux-5.4"
//! inherits = "linux-5.3"          # everything not said here
//! hz       = 250                  # ticks a second; the platform's where no profile says it
//!
//! [policies]                      # slot = policy
//! cpuidle = "menu"
//!
//! [placement.select_idle_sibling] # slot.policy: its tunables
//! sched_idle = "5.4"
//!
//! [features]                      # by the kernel's name
//! SIS_PROP = true
//! ```
//! A kernel whose profiles name no `cpuidle` has the governor that the platform's driver prefers, or else the kernel's default; every
//! other slot is named, here or by a parent. Which policies and tunables exist is the registry's knowledge, not this reader's. Codes: `kernel::E01` syntax · `E02`
//! limit · `E03` missing key · `E04` wrong type · `E05` range · `E06` unknown key · `E07` inheritance · `E08` override ·
//! `E09` unknown parent.

use crate::toml_tree::{self, Codes, Node, Report, Span, Table};
use crate::words::{nearest, quoted};
use std::collections::BTreeMap;
use wattif_model::check::Diagnostic;
use wattif_model::kernel::{KernelSpec, Slot, Value};
use wattif_model::platform;

/// Longest chain of `inherits`.
pub const MAX_DEPTH: usize = 16;
/// Ticks a second that a profile may ask for.
pub(crate) const HZ: std::ops::RangeInclusive<i64> = *platform::HZ.start() as i64..=*platform::HZ.end() as i64;
/// Longest name of a policy, tunable or feature, bytes.
const MAX_NAME: usize = 128;

const CODES: Codes = Codes {
    syntax: "kernel::E01",
    limit: "kernel::E02",
    missing: "kernel::E03",
    wrong_type: "kernel::E04",
    range: "kernel::E05",
    unknown: "kernel::E06",
    overriding: "kernel::E08",
};

/// What came of a reading.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The resolved profile, when there is no error; it may name no idle governor.
    pub kernel: Option<KernelSpec>,
    /// What could be read of the profile itself, without what it inherits: for what else is wrong with it.
    pub own: KernelSpec,
    /// Where its own tunables (`policy.tunable`) and features (`features.NAME`) stand.
    pub places: BTreeMap<String, Span>,
    /// The profile it inherits from.
    pub inherits: Option<String>,
    /// All findings; those of parents name the parent and have an empty span.
    pub diagnostics: Vec<Diagnostic>,
}

/// Read a profile. `parent` gives the text of the profile `inherits` names.
pub fn parse(text: &str, parent: &dyn Fn(&str) -> Option<String>) -> Parsed {
    let mut report = Report::new(CODES);
    let mut layers = vec![layer(text, &mut report)];
    let complete = ancestors(&mut layers, parent, &mut report);
    let (own, inherits) = (layers[0].spec.clone(), layers[0].inherits.clone());
    let places = std::mem::take(&mut layers[0].places);
    let mut kernel = KernelSpec::default();
    for layer in layers.into_iter().rev() {
        layer.onto(&mut kernel);
    }
    if complete {
        missing_slots(&kernel, &mut report);
    }
    let kernel = (!report.has_errors()).then_some(kernel);
    Parsed { kernel, own, places, inherits, diagnostics: report.into_diagnostics() }
}

/// Override one thing of a resolved profile: `policy.tunable`, `slot` (a policy for it), or `features.NAME`.
/// A slot in front of `policy.tunable` is accepted. Whether the name exists is for the registry to say.
pub fn set(kernel: &mut KernelSpec, path: &str, value: &str) -> Result<(), Diagnostic> {
    let refuse = |why: String| Err(Diagnostic::error("kernel::E08", 0..0, why));
    let value = match toml_tree::parse_value(value) {
        toml_tree::Value::Int(i) => Value::Int(i),
        toml_tree::Value::Bool(b) => Value::Bool(b),
        _ => Value::Text(value.trim_matches('"').to_string()),
    };
    let names: Vec<&str> = path.split('.').collect();
    match (&names[..], value) {
        (["hz"], Value::Int(hz)) if HZ.contains(&hz) => {
            kernel.hz = Some(hz as u32);
            Ok(())
        }
        (["hz"], _) => refuse(format!("override `hz`: write {} to {} ticks a second", HZ.start(), HZ.end())),
        ([name] | ["policies", name], value) => match slot(name) {
            Some(slot) => kernel.policies.insert(slot, value.to_string()),
            None => return Err(no_such_path(path)),
        }
        .map_or(Ok(()), |_| Ok(())),
        (["features", name], Value::Bool(on)) => {
            kernel.features.insert(name.to_string(), on);
            Ok(())
        }
        (["features", name], value) => {
            refuse(format!("override {}: write true or false, not `{value}`", quoted(&format!("features.{name}"))))
        }
        ([policy, tunable], value) => {
            kernel.tunables.insert(format!("{policy}.{tunable}"), value);
            Ok(())
        }
        ([first, policy, tunable], value) if slot(first).is_some() => {
            kernel.tunables.insert(format!("{policy}.{tunable}"), value);
            Ok(())
        }
        _ => Err(no_such_path(path)),
    }
}

fn no_such_path(path: &str) -> Diagnostic {
    let other = match path.split('.').next().unwrap_or_default() {
        "tasks" | "global" => format!("; for the workload file workload.{path}=…"),
        "cpus" | "domains" | "clusters" | "costs" | "noise" => format!("; for the platform platform.{path}=…"),
        _ => String::new(),
    };
    let why = format!("override {}: write policy.tunable=value or slot=policy{other}", quoted(path));
    let wrong = path.strip_prefix("policies.").unwrap_or(path).split('.').next().unwrap_or_default();
    let known = Slot::ALL.iter().map(|s| s.name()).chain(["hz"]);
    let diagnostic = Diagnostic::error("kernel::E08", 0..0, why);
    match nearest(wrong, known) {
        Some(near) => diagnostic.help(format!("did you mean {near}?")),
        None => diagnostic,
    }
}

fn slot(name: &str) -> Option<Slot> {
    Slot::ALL.into_iter().find(|s| s.name() == name)
}

/// One file of the chain.
#[derive(Debug, Default)]
struct Layer {
    inherits: Option<String>,
    /// Where it says that.
    inherits_at: Span,
    spec: KernelSpec,
    places: BTreeMap<String, Span>,
}

impl Layer {
    fn onto(self, kernel: &mut KernelSpec) {
        kernel.name = self.spec.name;
        if !self.spec.title.is_empty() {
            kernel.title = self.spec.title;
        }
        kernel.hz = self.spec.hz.or(kernel.hz);
        kernel.policies.extend(self.spec.policies);
        kernel.tunables.extend(self.spec.tunables);
        kernel.features.extend(self.spec.features);
    }
}

/// Follow `inherits` to the root of the chain; false when it is not reached.
fn ancestors(layers: &mut Vec<Layer>, parent: &dyn Fn(&str) -> Option<String>, report: &mut Report) -> bool {
    // The names of files, as `inherits` has them.
    let mut seen: Vec<String> = Vec::new();
    let at = layers[0].inherits_at.clone();
    while let Some(name) = layers.last().and_then(|l| l.inherits.clone()) {
        if let Some(first) = seen.iter().position(|s| *s == name) {
            let round = [&seen[first..], std::slice::from_ref(&name)].concat().join(" → ");
            report.error("kernel::E07", at, format!("{} inherits from itself: {round}", quoted(&name)));
            return false;
        }
        if layers.len() >= MAX_DEPTH {
            report.error("kernel::E07", at, format!("more than {MAX_DEPTH} generations of `inherits`"));
            return false;
        }
        let Some(text) = parent(&name) else {
            report.error("kernel::E09", at, format!("inherits {}: there is no such profile", quoted(&name)));
            return false;
        };
        let mut own = Report::new(CODES);
        layers.push(layer(&text, &mut own));
        let unread = own.unread;
        for d in own.into_diagnostics() {
            let message = format!("in the parent {}: {}", quoted(&name), d.message);
            report.push(Diagnostic { span: 0..0, message, ..d });
        }
        if unread {
            return false;
        }
        seen.push(name);
    }
    true
}

fn layer(text: &str, report: &mut Report) -> Layer {
    let mut root = toml_tree::parse(text, report);
    let mut spec = KernelSpec { name: String::new(), ..KernelSpec::default() };
    let mut places = BTreeMap::new();
    if let Some(name) = root.need("name", report) {
        spec.name = name.text("name", report).unwrap_or_default().to_string();
    }
    spec.title = root.text("title", report).unwrap_or_default();
    let inherits_at = root.entries.get("inherits").map(|(_, node)| node.span.clone()).unwrap_or_default();
    let inherits = root.text("inherits", report);
    spec.hz = root.int("hz", HZ, report).map(|hz| hz as u32);
    policies(root.table("policies", report), &mut spec, report);
    features(root.table("features", report), &mut spec, &mut places, report);
    for slot in Slot::ALL {
        let policies = root.table(slot.name(), report);
        for (policy, (_, node)) in policies.entries {
            let Some(table) = node.table(&policy, report) else { continue };
            tunables(&policy, table, &mut spec, &mut places, report);
        }
    }
    let known = ["name", "title", "inherits", "hz", "policies", "features"];
    let slots = Slot::ALL.map(Slot::name);
    root.finish(&[&known[..], &slots[..]].concat(), report);
    Layer { inherits, inherits_at, spec, places }
}

fn policies(mut table: Table, spec: &mut KernelSpec, report: &mut Report) {
    for slot in Slot::ALL {
        if let Some(policy) = table.text(slot.name(), report) {
            spec.policies.insert(slot, policy);
        }
    }
    table.finish(&Slot::ALL.map(Slot::name), report);
}

fn features(table: Table, spec: &mut KernelSpec, places: &mut BTreeMap<String, Span>, report: &mut Report) {
    for (name, (span, node)) in table.entries {
        match node.value {
            toml_tree::Value::Bool(on) if name.len() <= MAX_NAME => {
                places.insert(format!("features.{name}"), span);
                spec.features.insert(name, on);
            }
            _ => {
                let message = format!("feature {} must be true or false", quoted(&name));
                report.error(CODES.wrong_type, node.span, message);
            }
        }
    }
}

fn tunables(
    policy: &str,
    table: Table,
    spec: &mut KernelSpec,
    places: &mut BTreeMap<String, Span>,
    report: &mut Report,
) {
    for (name, (span, node)) in table.entries {
        if policy.len() + name.len() > MAX_NAME {
            report.error(CODES.limit, span, format!("the name {} is too long", quoted(&name)));
            continue;
        }
        if let Some(value) = tunable(&name, node, report) {
            let path = format!("{policy}.{name}");
            places.insert(path.clone(), span);
            spec.tunables.insert(path, value);
        }
    }
}

fn tunable(name: &str, node: Node, report: &mut Report) -> Option<Value> {
    match node.value {
        toml_tree::Value::Bool(b) => Some(Value::Bool(b)),
        toml_tree::Value::Int(i) => Some(Value::Int(i)),
        toml_tree::Value::Text(t) => Some(Value::Text(t)),
        other => {
            let message = format!("tunable {} must be a number, word or boolean, not {}", quoted(name), other.kind());
            report.error(CODES.wrong_type, node.span, message);
            None
        }
    }
}

fn missing_slots(kernel: &KernelSpec, report: &mut Report) {
    let named = |slot: &Slot| *slot == Slot::Cpuidle || kernel.policies.contains_key(slot);
    for slot in Slot::ALL.into_iter().filter(|slot| !named(slot)) {
        let message = format!("no policy for `{}`, neither here nor inherited", slot.name());
        report.push(
            Diagnostic::error(CODES.missing, 0..0, message).help(format!("add `{} = …` to [policies]", slot.name())),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = r#"
        name = "base"
        title = "Base"
        [policies]
        class = "cfs"
        load = "pelt"
        placement = "select_task_rq_fair"
        balance = "load_balance"
        cpufreq = "schedutil"
        cpuidle = "menu"
        [placement.select_idle_sibling]
        sched_idle = "off"
        [features]
        SIS_PROP = true
    "#;

    fn parents(name: &str) -> Option<String> {
        match name {
            "base" => Some(BASE.into()),
            "loop" => Some("name = 'loop'\ninherits = 'loop2'".into()),
            "loop2" => Some("name = 'loop2'\ninherits = 'loop'".into()),
            "self" => Some("name = 'self'\ninherits = 'self'".into()),
            "bad" => Some("name = 5".into()),
            _ => None,
        }
    }

    /// Codes of the errors, or the piece of the resolved profile that is asked for.
    #[track_caller]
    fn check(text: &str, expect: Result<(&str, &str), &str>) {
        let parsed = parse(text, &parents);
        let codes: Vec<_> = parsed.diagnostics.iter().map(|d| d.code.trim_start_matches("kernel::")).collect();
        match (expect, parsed.kernel) {
            (Ok((tunable, value)), Some(k)) => assert_eq!(k.tunables[tunable].to_string(), value),
            (Err(expected), None) => assert_eq!(codes.join(" "), expected, "{:#?}", parsed.diagnostics),
            (_, kernel) => panic!("{kernel:?} {:#?}", parsed.diagnostics),
        }
    }

    #[test]
    fn mistakes_of_inheritance_have_a_place() {
        for (name, part) in [
            ("loop", "`loop` inherits from itself: loop → loop2 → loop"),
            ("self", "`self` inherits from itself: self → self"),
            ("nobody", "inherits `nobody`: there is no such profile"),
        ] {
            let text = format!("name = 'loop2'\ninherits = '{name}'");
            let found = parse(&text, &parents).diagnostics;
            assert_eq!((found.len(), found[0].message.as_str()), (1, part), "{found:?}");
            assert_eq!(&text[found[0].span.clone()], format!("'{name}'"));
        }
    }

    #[test]
    fn a_text_over_the_limit_is_one_mistake() {
        let long = "#".repeat(toml_tree::MAX_BYTES + 1);
        check(&long, Err("E02"));
        let of_parent = parse("name = 'x'\ninherits = 'long'", &|_| Some(long.clone())).diagnostics;
        assert_eq!(of_parent.iter().map(|d| d.code).collect::<Vec<_>>(), ["kernel::E02"]);
    }

    #[test]
    fn layers() {
        check(BASE, Ok(("select_idle_sibling.sched_idle", "off")));
        check("name = 'x'\ninherits = 'base'", Ok(("select_idle_sibling.sched_idle", "off")));
        let child = "name = 'x'\ninherits = 'base'\n[placement.select_idle_sibling]\nsched_idle = '5.4'\n[class.cfs]\nsched_latency_us = 6000";
        check(child, Ok(("select_idle_sibling.sched_idle", "5.4")));
        check(child, Ok(("cfs.sched_latency_us", "6000")));
        let parsed = parse(child, &parents);
        assert_eq!((parsed.kernel.unwrap().name.as_str(), parsed.inherits.as_deref()), ("x", Some("base")));
        let hz = |text: &str| parse(&format!("name = 'x'\ninherits = 'base'\n{text}"), &parents).kernel.unwrap().hz;
        assert_eq!((hz("hz = 100"), hz("")), (Some(100), None));
    }

    #[test]
    fn mistakes() {
        check("name = 'x'\ninherits = 'loop'", Err("E07"));
        check("name = 'x'\ninherits = 'none'", Err("E09"));
        check("name = 'x'\ninherits = 'base'\nhz = 0", Err("E05"));
        check("inherits = 'base'", Err("E03"));
        check("name = 'x'\ninherits = 'base'\nplacment = 5\n[features]\nA = 1", Err("E06 E04"));
        check("name = 'x'\ninherits = 'base'\n[class.cfs]\nx = 1.5\n[cpuidle]\nmenu = 3", Err("E04 E04"));
        check("name = 'x'\ninherits = 'base'\n[", Err("E01"));
        check("name = 'x'\ninherits = 'bad'", Err("E04 E03 E03 E03 E03 E03"));
    }

    #[test]
    fn overrides() {
        let mut k = parse(BASE, &parents).kernel.unwrap();
        set(&mut k, "select_idle_sibling.sched_idle", "5.6").unwrap();
        set(&mut k, "class", "eevdf").unwrap();
        set(&mut k, "cpufreq.schedutil.rate_limit_us", "500").unwrap();
        set(&mut k, "features.SIS_PROP", "false").unwrap();
        set(&mut k, "hz", "1000").unwrap();
        assert_eq!(k.hz, Some(1000));
        assert_eq!(k.tunables["select_idle_sibling.sched_idle"], Value::Text("5.6".into()));
        assert_eq!(k.tunables["schedutil.rate_limit_us"], Value::Int(500));
        assert_eq!((k.policies[&Slot::Class].as_str(), k.features["SIS_PROP"]), ("eevdf", false));
        for (path, value) in
            [("x", "1"), ("hz", "5"), ("hz", "x"), ("features.A", "2"), ("a.b.c", "1"), ("a.b.c.d", "1")]
        {
            assert_eq!(set(&mut k, path, value).unwrap_err().code, "kernel::E08");
        }
    }
}
