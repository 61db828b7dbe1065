//! Tasks: each object becomes a task with its attributes and program.

use super::global::Global;
use super::json::{EXAMPLE, Json, Member, Span};
use super::keys;
use super::lints::Report;
use super::phases::State;
use super::resources::Resources;
use super::sched::{self, Keys};
use super::{Dialect, MAX_GROUPS, MAX_NAME, MAX_THREADS, Options, values};
use crate::cgroup;
use crate::words::quoted;
use std::collections::{BTreeMap, BTreeSet};
use wattif_model::workload::{GroupSpec, Op, Policy, SchedAttr, TaskSpec, Workload};
use wattif_model::{CpuSet, Ns};

/// Everything known while a file is read.
pub(super) struct Context<'a> {
    pub options: &'a Options,
    pub report: Report,
    pub global: Global,
    pub resources: Resources,
    /// Task name → index.
    pub task_index: BTreeMap<String, u32>,
    /// Tasks some `fork` names.
    pub forked: BTreeSet<u32>,
    /// Phases of each task so far, see [`super::Logs::phases`].
    pub phases: Vec<u32>,
    /// See [`Logs::kinds`](super::Logs::kinds).
    pub kinds: Vec<Vec<Vec<u8>>>,
    /// Mutexes of the task being read.
    pub locks: Locks,
    /// Where tasks lock mutexes that they do not unlock, and what any task unlocks.
    pub kept_locked: Vec<(String, Span)>,
    pub unlocked: BTreeSet<String>,
    /// `memrun` buffers by `ref`.
    pub buffers: BTreeMap<String, String>,
    pub groups: Vec<GroupSpec>,
    /// Those that tasks name, without the ones above them.
    pub named_groups: BTreeSet<u32>,
}

/// First places where a task locks, unlocks, or waits with each mutex.
#[derive(Debug, Default)]
pub(super) struct Locks {
    pub locked: BTreeMap<String, Span>,
    pub unlocked: BTreeMap<String, Span>,
    pub waited: BTreeMap<String, Span>,
}

/// A task, before its events are read.
pub(super) struct Task<'a> {
    pub name: &'a str,
    pub index: u32,
    pub instances: u32,
    /// Threads of the start before its own: their names count through all tasks.
    pub before: u64,
    pub name_span: Span,
    pub members: &'a [Member],
}

impl Context<'_> {
    /// Read all tasks, the object at `span`, into `workload`.
    pub(super) fn tasks(&mut self, tasks: &[Member], span: &Span, workload: &mut Workload) {
        let list = self.list(tasks, span);
        for task in &list {
            let spec = self.task(task);
            workload.tasks.push(spec);
        }
        self.lint_comms(&list);
        self.lint_kept_locked();
        for task in list.iter().filter(|t| t.instances == 0 && !self.forked.contains(&t.index)) {
            let message = format!("task {} has instance 0 and nobody forks it: it never runs", quoted(task.name));
            self.report.warning("rtapp::W19", task.name_span.clone(), message);
        }
        self.settle_timers(workload);
        workload.groups = std::mem::take(&mut self.groups);
    }

    /// Names and instances first: forks and barriers refer to tasks further down.
    fn list<'t>(&mut self, tasks: &'t [Member], span: &Span) -> Vec<Task<'t>> {
        let mut list = Vec::new();
        let mut threads = 0u64;
        for m in tasks {
            if m.name.len() > MAX_NAME {
                let message = format!("the task name {} has over {MAX_NAME} bytes", quoted(&m.name));
                let help = "give it a shorter name; the kernel keeps 15 bytes of a thread's";
                self.report.error("rtapp::E02", m.name_span.clone(), message).help(help);
                continue;
            }
            let members = values::object(&m.name, &m.value, &mut self.report);
            if !matches!(m.value.value, Json::Object(_)) {
                continue;
            }
            let instance = values::find(members, "instance");
            let instances = instance.map_or(Some(1), |i| values::int(i, 0..=i32::MAX as i64, &mut self.report));
            let instances = instances.unwrap_or(1) as u32;
            let index = list.len() as u32;
            let before = threads;
            threads += instances as u64;
            self.task_index.insert(m.name.clone(), index);
            list.push(Task { name: &m.name, index, instances, before, name_span: m.name_span.clone(), members });
        }
        if list.is_empty() && !self.report.has_errors() {
            self.report.error("rtapp::E03", span.clone(), "there are no tasks").help(EXAMPLE);
        }
        if threads.max(list.len() as u64) > MAX_THREADS {
            let message = format!("{threads} threads of {} tasks; the limit is {MAX_THREADS} of each", list.len());
            let (at, help) = match list.iter().max_by_key(|t| t.instances).filter(|t| t.instances > 1) {
                Some(most) => {
                    (&most.name_span, "lower `instance`, here the largest, or split the workload into several runs")
                }
                None => (span, "split the tasks among several runs"),
            };
            self.report.error("rtapp::E10", at.clone(), message).help(help);
        }
        list
    }

    fn task(&mut self, task: &Task<'_>) -> TaskSpec {
        self.locks = Locks::default();
        let phases = values::find(task.members, "phases");
        let mut keys = Keys::read(task.members, Some(self.options.dialect), &mut self.report);
        let policy = *keys.policy.get_or_insert(self.global.default_policy);
        self.task_keys(task, phases.is_some(), policy);
        keys.span.get_or_insert(task.name_span.clone());
        let attr = keys.apply(SchedAttr::default());
        keys.validate(&attr, "", &mut self.report);
        keys.lint_unused(&attr, &mut self.report);
        let cpus = self.cpus(task.members);
        let group = self.group(task.members, &attr);
        let delay = values::find(task.members, "delay").and_then(|m| values::us(m, &mut self.report)).unwrap_or(0);
        let group = group.unwrap_or(0);
        let state = State { attr, group };
        let program = match phases {
            Some(phases) => self.phases(task, phases, state, cpus.clone()),
            None => self.single(task, &state),
        };
        self.lint_locks();
        TaskSpec {
            name: task.name.into(),
            instances: task.instances,
            start: Ns::ZERO,
            startup: Ns::ZERO,
            delay: Ns::from_us(delay),
            attr,
            cpus,
            prev_cpu: None,
            prev_util: 0,
            group,
            background: false,
            program,
        }
    }

    /// Threads are called `task-index`, or `task-index-number` where they are forked; the index counts all threads so far.
    fn lint_comms(&mut self, list: &[Task<'_>]) {
        const COMM: usize = 15;
        let threads = list.last().map_or(0, |t| t.before + u64::from(t.instances));
        for task in list {
            let longest = match self.forked.contains(&task.index) {
                true => format!("{}-{threads}-0000", task.name),
                false => format!("{}-{}", task.name, (task.before + u64::from(task.instances)).saturating_sub(1)),
            };
            if longest.len() > COMM {
                let message =
                    format!("the thread name {} has over {COMM} bytes: the kernel refuses it", quoted(&longest));
                self.report
                    .warning("rtapp::W05", task.name_span.clone(), message)
                    .help("under rt-app such a thread is called `rt-app`, and traces cannot be matched to it");
            }
        }
    }

    /// Keys of a task that mean nothing, or not what they seem.
    fn task_keys(&mut self, task: &Task<'_>, has_phases: bool, policy: Policy) {
        for m in task.members {
            let is_event = keys::event(&m.name).is_some();
            match m.name.as_str() {
                "nodes_membind" => self.membind(m),
                // With duration and mode it is an event alone.
                "runtime" if !has_phases && matches!(m.value.value, Json::Object(_)) => {}
                "runtime" if !has_phases => {
                    let message =
                        "in a task without phases rt-app reads `runtime` also as the slice (or deadline budget)";
                    self.report
                        .warning("rtapp::W04", m.name_span.clone(), message)
                        .help("call the event `runtime0` to avoid it");
                }
                // The budget of a deadline task, by its old name.
                "runtime" if policy == Policy::Deadline => {}
                "runtime" => {
                    let message = "`runtime` beside `phases` is no event: rt-app reads it as the task's slice";
                    if matches!(policy, Policy::Normal | Policy::Batch) {
                        let help = "move the event into a phase; a slice that is meant is called `dl-runtime`";
                        self.report.warning("rtapp::W04", m.name_span.clone(), message).help(help);
                    }
                    self.beside_phases(m);
                }
                name if keys::TASK.contains(&name) || keys::SCHED.contains(&name) => {}
                _ if is_event && has_phases => self.beside_phases(m),
                _ if is_event => {}
                _ => keys::unknown(m, &[keys::TASK, keys::SCHED], true, &mut self.report),
            }
        }
    }

    fn beside_phases(&mut self, m: &Member) {
        let message = format!("the event {} beside `phases` is never executed", quoted(&m.name));
        self.report.warning("rtapp::W06", m.name_span.clone(), message);
    }

    pub(super) fn membind(&mut self, m: &Member) {
        if matches!(m.value.value, Json::Null) {
            return;
        }
        values::integers(m, &mut self.report);
        let message = "`nodes_membind`: memory placement is not simulated";
        self.report.note("rtapp::N01", m.name_span.clone(), message);
    }

    pub(super) fn cpus(&mut self, members: &[Member]) -> Option<CpuSet> {
        let m = values::find(members, "cpus")?;
        sched::cpus(m, self.options.dialect, self.options.nr_cpus, &mut self.report)
    }

    pub(super) fn group(&mut self, members: &[Member], attr: &SchedAttr) -> Option<u32> {
        let m = values::find(members, "taskgroup")?;
        let path = values::text(m, &mut self.report)?;
        if path.is_empty() {
            return None;
        }
        let mut refuse = |why: String| {
            self.report.error("rtapp::E14", m.value.span.clone(), why).help(values::REFUSED);
            None
        };
        if !attr.policy.is_fair() {
            return refuse(format!("a taskgroup holds fair tasks only, not {}", attr.policy.name()));
        }
        match cgroup::add(&mut self.groups, path) {
            Ok(0) => Some(0),
            Ok(at) if self.named_groups.len() < MAX_GROUPS || self.named_groups.contains(&at) => {
                self.named_groups.insert(at);
                Some(at)
            }
            Ok(_) => refuse(format!("more than {MAX_GROUPS} taskgroups")),
            Err(why) => refuse(why),
        }
    }

    /// The group that an object names, unchecked.
    pub(super) fn names_group(members: &[Member]) -> Option<&str> {
        match &values::find(members, "taskgroup")?.value.value {
            Json::Text(path) if !path.is_empty() => Some(path),
            _ => None,
        }
    }

    /// rt-app compares after each phase: a thread that a phase makes anything but fair must not be in a group by then.
    pub(super) fn lint_grouped(&mut self, keys: &Keys, path: &str) {
        let (Some(policy), Some(at)) = (keys.policy.filter(|p| !p.is_fair()), keys.span.clone()) else { return };
        let message =
            format!("a taskgroup holds fair tasks only, not {}: the thread is in {} here", policy.name(), quoted(path));
        match self.options.dialect {
            Dialect::RtApp => self.report.error("rtapp::E14", at, message).help(values::REFUSED),
            _ => self.report.warning("rtapp::W22", at, message).help(
                "rt-app refuses it, and exits with 2; here it stays in the group, which counts again once it is fair",
            ),
        }
    }

    /// Events a timer made absolute anywhere in the file, of any thread that shares it, are absolute everywhere.
    fn settle_timers(&mut self, workload: &mut Workload) {
        let mut told = BTreeSet::new();
        for (index, task) in workload.tasks.iter_mut().enumerate() {
            for op in &mut task.program.ops {
                let Op::Timer { timer, absolute, .. } = op else { continue };
                let settled = self.resources.is_absolute(*timer, index as u32);
                if settled && !*absolute && told.insert(*timer) {
                    let message = "a timer once `absolute` is so in every event that names it, also in this one";
                    self.report.warning("rtapp::W16", self.resources.timer_span(*timer), message);
                }
                *absolute = settled;
            }
        }
    }

    fn lint_locks(&mut self) {
        let Locks { locked, unlocked, waited } = std::mem::take(&mut self.locks);
        let kept = locked.iter().filter(|(name, _)| !unlocked.contains_key(*name));
        self.kept_locked.extend(kept.map(|(name, span)| (name.clone(), span.clone())));
        self.unlocked.extend(unlocked.keys().cloned());
        let mut warn = |span: &Span, message: String| {
            self.report.warning("rtapp::W12", span.clone(), message);
        };
        for (name, span) in waited.iter().filter(|(name, _)| !locked.contains_key(*name)) {
            warn(span, format!("waits with mutex {} but never locks it", quoted(name)));
        }
        for (name, span) in unlocked.iter().filter(|(name, _)| !locked.contains_key(*name)) {
            warn(span, format!("unlocks mutex {} but never locks it", quoted(name)));
        }
    }

    /// Another task may unlock what one keeps locked, as the C library lets any thread; but not where mutexes lend priority.
    fn lint_kept_locked(&mut self) {
        let any = !self.global.pi_enabled;
        for (name, span) in std::mem::take(&mut self.kept_locked) {
            if any && self.unlocked.contains(&name) {
                continue;
            }
            let message = format!(
                "locks mutex {} but never unlocks it: who locks it next, itself too, waits for ever",
                quoted(&name)
            );
            self.report.warning("rtapp::W12", span, message);
        }
    }
}
