//! rt-app workload files: JSON with tasks, phases and events, read into a [`Workload`].
//!
//! The grammar is that of rt-app's C master of May 2026. What rt-app does silently (repeated keys that collapse, unknown
//! keys, a `resume` nobody hears) is a numbered lint here; [`LINTS`] lists them all: `E` refuses the file, `W` says what
//! rt-app does instead of what the author probably meant, `N` lists what has no effect in a simulation.
//!
//! | dialect | repeated event keys | `suspend` |
//! |---|---|---|
//! | [`Dialect::Workgen`] (default) | each is an event, as after rt-app's pre-processor | waits on its task's name |
//! | [`Dialect::RtApp`] | exactly json-c: first place, last value | the same; a value is mandatory |
//! | [`Dialect::LegacySuspend`] | each is an event | waits on the name given, as before 2025 |
//!
//! The way of a file: [`json`](self) text → tree (bounded) → overrides → repeated keys → global → tasks → phases → events
//! → cross-checks of resources.
//!
//! | lint | about |
//! |---|---|
//! | `E01` | not JSON |
//! | `E02` | a limit of size, nesting or number is exceeded |
//! | `E03` | a mandatory key is missing |
//! | `E04` | wrong type for a known key |
//! | `E05` | a number is negative, too large or out of range |
//! | `E06` | unknown scheduling policy |
//! | `E07` | a phase has no events |
//! | `E08` | fork of a task that does not exist |
//! | `E09` | a CPU that does not exist, or a malformed CPU list |
//! | `E10` | too many threads |
//! | `E11` | an endless loop that never consumes time |
//! | `E12` | unknown word where one of a few is due |
//! | `E13` | memrun parameters do not match those of the same `ref` |
//! | `E14` | scheduling attributes the kernel refuses |
//! | `E15` | an override names a path that does not exist |
//! | `E16` | a key without a value |
//! | `W01` | unknown key, close to a known one: rt-app ignores it silently |
//! | `W02` | repeated key collapses: first place, last value |
//! | `W03` | resume of a name that never suspends: wakes nobody |
//! | `W04` | event `runtime` in a task without phases is also read as the task's slice or budget |
//! | `W05` | thread name over 15 bytes: the kernel refuses it and the thread stays `rt-app` |
//! | `W06` | key without effect in this place |
//! | `W07` | loop 0 |
//! | `W08` | key read as an event because it begins like one |
//! | `W09` | timer shared by several threads |
//! | `W10` | signal that nobody ever waits for |
//! | `W11` | wait that nobody ever ends |
//! | `W12` | mutex waited with or unlocked but never locked, or locked and never unlocked |
//! | `W13` | barrier that counts more parties than can arrive, or is named by a task that is forked |
//! | `W14` | long loop that never consumes time |
//! | `W15` | phase that is never reached |
//! | `W16` | timer without period or made absolute elsewhere; unknown mode of a timer or `runtime`, or pattern of a `memrun` |
//! | `W17` | duration 0 means no limit |
//! | `W18` | repeated task name: the later task is renamed |
//! | `W19` | task with instance 0 that nobody forks |
//! | `W20` | unknown ftrace category: rt-app refuses it |
//! | `W21` | positions of a `memrun` chase that are no power of two |
//! | `W22` | phase with another than a fair policy while the thread is in a taskgroup: rt-app refuses it |
//! | `W23` | time above 2147483647 µs: rt-app's integers end there |
//! | `W24` | text behind the end of the root object: rt-app never reads it |
//! | `N01` | accepted, without meaning in a simulation |
//! | `N02` | unknown key, ignored as rt-app does |
//! | `N03` | accepted here, refused by rt-app |
//! | `N04` | accepted here, ignored by rt-app |
//! | `N05` | more findings than are shown |

mod events;
mod global;
mod groups;
mod json;
mod json_c;
mod keys;
mod lints;
pub mod memory;
mod overrides;
mod phases;
mod resources;
mod sched;
mod syntax;
mod tasks;
#[cfg(test)]
mod tests;
mod values;
mod write;

pub use global::Logs;
pub use json::{MAX_BYTES, MAX_DEPTH, MAX_VALUES};
pub use lints::{LINTS, Lint};
pub use values::MAX_US;
pub use write::write;

use global::Global;
use json::Reader;
use lints::Report;
use tasks::Context;
use values::Holds;
use wattif_model::check::Diagnostic;
use wattif_model::workload::{GroupSpec, MAX_THREADS, Workload};

/// Most groups that tasks name, besides the root (rt-app's own limit).
pub const MAX_GROUPS: usize = 32;
/// Longest name of a task, bytes.
pub const MAX_NAME: usize = 255;

/// How repeated keys and `suspend` are read; see the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Exactly as rt-app reads the file.
    RtApp,
    /// As rt-app reads it after its pre-processor `workgen`.
    #[default]
    Workgen,
    /// Like `Workgen`, and the value of `suspend` is the name waited on.
    LegacySuspend,
}

impl Dialect {
    /// All, the default first.
    pub const ALL: [Dialect; 3] = [Dialect::Workgen, Dialect::RtApp, Dialect::LegacySuspend];
    /// The word for rt-app's own that people write besides its name.
    pub const ALIAS: (&str, Dialect) = ("rt-app", Dialect::RtApp);

    /// As it is asked for.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::Workgen => "workgen",
            Dialect::RtApp => "rtapp",
            Dialect::LegacySuspend => "legacy-suspend",
        }
    }

    /// By name.
    pub fn parse(name: &str) -> Option<Dialect> {
        let named = Dialect::ALL.into_iter().find(|d| d.name() == name);
        named.or((name == Dialect::ALIAS.0).then_some(Dialect::ALIAS.1))
    }

    /// One line: how a file is read.
    pub const fn about(self) -> &'static str {
        match self {
            Dialect::Workgen => "Repeated keys are events of their own, as after rt-app's workgen",
            Dialect::RtApp => "Exactly as rt-app's own parser: of repeated keys the last value counts. Also: rt-app",
            Dialect::LegacySuspend => "As workgen, and the value of `suspend` is the name waited on (before 2025)",
        }
    }
}

/// What a reading needs besides the text.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Dialect.
    pub dialect: Dialect,
    /// CPUs of the platform; a CPU beyond is an error. `None`: unknown.
    pub nr_cpus: Option<usize>,
    /// Overrides, such as (`tasks.idle_thread.instance`, `0`): the file is patched before it is interpreted.
    pub set: Vec<(String, String)>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The workload, when there is no error.
    pub workload: Option<Workload>,
    /// All findings, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// `calibration: "CPU<n>"`: the CPU at whose full speed `run` counts, where the file names one.
    pub calibration_cpu: Option<u32>,
    /// What the file says of rt-app's logs.
    pub logs: Logs,
}

/// Read an rt-app file. `name` becomes the workload's.
pub fn parse(text: &str, name: &str, options: &Options) -> Parsed {
    let mut report = Report::default();
    let collapse = options.dialect == Dialect::RtApp;
    let reader = if collapse { Reader::RtApp } else { Reader::Workgen };
    let Some(mut root) = json::parse(text, reader, &mut report) else {
        return Parsed { diagnostics: report.into_diagnostics(), ..Parsed::default() };
    };
    if !collapse {
        values::rename_tasks(&mut root, &mut report);
    }
    // What an override puts in stands beyond the text.
    let beyond = text.len() + 1;
    for (i, (path, value)) in options.set.iter().enumerate() {
        overrides::apply(&mut root, path, value, &(beyond + i..beyond + i), &mut report);
    }
    values::repeated(&mut root, Holds::Root, collapse, &mut report);
    let mut parsed = interpret(&root, name, options, report);
    for d in parsed.diagnostics.iter_mut().filter(|d| d.span.start >= beyond) {
        let (path, value) = &options.set[d.span.start - beyond];
        d.message = format!("--set workload.{path}={value}: {}", d.message);
        d.help =
            d.help.take().map(|help| if help == values::REFUSED { "set a value of that type".into() } else { help });
        d.span = 0..0;
    }
    parsed
}

fn interpret(root: &json::Node, name: &str, options: &Options, mut report: Report) -> Parsed {
    let members = values::object("the root", root, &mut report);
    for m in members.iter().filter(|m| !keys::ROOT.contains(&m.name.as_str())) {
        keys::unknown(m, &[keys::ROOT], false, &mut report);
    }
    let global = match values::find(members, "global") {
        Some(m) => Global::read(values::object("global", &m.value, &mut report), options, &mut report),
        None => Global::default(),
    };
    if let Some(m) = values::find(members, "resources") {
        global::resources(values::object("resources", &m.value, &mut report), &mut report);
    }
    let (calibration_cpu, mut logs) = (global.calibration_cpu, global.logs.clone());
    let mut workload = Workload {
        name: name.into(),
        duration: global.duration,
        pi_enabled: global.pi_enabled,
        cumulative_slack: global.cumulative_slack,
        ..Workload::default()
    };
    let mut context = Context::new(options, global, report);
    match values::find(members, "tasks") {
        Some(m) => {
            let tasks = values::object("tasks", &m.value, &mut context.report);
            context.tasks(tasks, &m.value.span, &mut workload);
        }
        None if matches!(root.value, json::Json::Object(_)) => {
            let message = "the key `tasks` is missing";
            context.report.error("rtapp::E03", root.span.clone(), message).help(json::EXAMPLE);
        }
        None => {}
    }
    if let Some(m) = values::find(members, "groups") {
        let message = "rt-app ignores `groups`: there, write the files of these cgroups by hand";
        context.report.note("rtapp::N04", m.name_span.clone(), message);
        let groups = values::object("groups", &m.value, &mut context.report);
        groups::read(groups, &mut workload.groups, &mut context.report);
    }
    if !logs.ftrace.is_empty() {
        logs.phases = std::mem::take(&mut context.phases);
        logs.kinds = std::mem::take(&mut context.kinds);
    }
    context.resources.fill(&mut workload);
    context.resources.lint(&context.forked, options.dialect, &mut context.report);
    let failed = context.report.has_errors();
    let workload = (!failed).then_some(workload);
    Parsed { workload, diagnostics: context.report.into_diagnostics(), calibration_cpu, logs }
}

impl<'a> Context<'a> {
    fn new(options: &'a Options, global: Global, report: Report) -> Context<'a> {
        Context {
            options,
            report,
            global,
            resources: Default::default(),
            task_index: Default::default(),
            forked: Default::default(),
            phases: Default::default(),
            kinds: Default::default(),
            locks: Default::default(),
            kept_locked: Default::default(),
            unlocked: Default::default(),
            buffers: Default::default(),
            groups: vec![GroupSpec::root()],
            named_groups: Default::default(),
        }
    }
}
