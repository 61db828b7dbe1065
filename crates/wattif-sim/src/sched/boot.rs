//! From nothing to a running system: governors start, CPUs go idle, threads are created.

use super::Hrtimer;
use super::class::dl_bandwidth::{self, to_ratio};
use super::class::fair;
use super::class::weight::se_weight;
use super::core::IDLE;
use super::load::pelt::SchedAvg;
use super::load::walt::WaltTask;
use super::task::{SchedEntity, State, Task};
use super::uclamp::{Clamped, uclamp_update};
use crate::cpufreq::CpufreqPolicy;
use crate::cpuidle::CpuidleState;
use crate::engine::rng::Rng;
use crate::machine::program::{Fork, Step};
use crate::machine::timer::TimerKind;
use crate::registry;
use crate::simulation::{Kernel, Source};
use wattif_model::kernel::KernelSpec;
use wattif_model::run::RunError;
use wattif_model::trace::{Asked, DlParams, ThreadInfo};
use wattif_model::units::CAPACITY_SCALE;
use wattif_model::workload::{Op, Policy, SchedAttr, TaskSpec};
use wattif_model::{CpuId, CpuSet, DomainId, Ns, Pid};

/// What helps a thread that may run nowhere; it may come from a file or from a model.
pub(crate) const OTHER_CPUS: &str =
    "  give it CPUs that the platform has (`cpus` in a workload file, `cpu` of a model), or take a platform with more";

/// Background of a recorded machine that is bound to CPUs this one does not have: without them there is none of it.
pub(crate) fn is_elsewhere(task: &TaskSpec, nr_cpus: usize) -> bool {
    let nowhere = |cpus: &CpuSet| cpus.and(&CpuSet::first(nr_cpus)).is_empty();
    let binds_itself = |op: &Op| matches!(op, Op::SetAffinity(Some(cpus)) if nowhere(cpus));
    task.background && (task.cpus.as_ref().is_some_and(nowhere) || task.program.ops.iter().any(binds_itself))
}

impl Kernel<'_, '_> {
    /// Everything that happens at time 0.
    pub(crate) fn boot(&mut self, kernel: &KernelSpec) -> Result<(), RunError> {
        self.start_governors(kernel);
        self.create_threads()?;
        self.create_stoppers()?;
        self.create_workers()?;
        for cpu in 0..self.s.nr_cpus() as u32 {
            let cpu = CpuId(cpu);
            self.arm(Source::Tick(cpu), self.next_tick(0));
            self.do_idle(cpu);
        }
        self.start_interrupts();
        Ok(())
    }

    fn start_governors(&mut self, kernel: &KernelSpec) {
        for d in 0..self.m.platform.domains.len() as u32 {
            let domain = DomainId(d);
            let mut policy = CpufreqPolicy::of_domain(&self.m.platform, domain, self.s.tick_ns);
            policy.cur = policy.cpuinfo_min;
            if let Some(em) = registry::energy_model(kernel, &self.m.platform, domain) {
                policy.table.mark_inefficient(|khz| em.is_inefficient(khz));
            }
            let view = super::view::Signals { s: &self.s, cpus: &self.cpus };
            let khz = self.cpufreq[domain.at()].start(policy, 0, &view);
            // The firmware has set the first frequency before the run: no transition is in flight at time 0.
            let opps = &self.m.platform.domains[domain.at()].opps;
            let opp = khz.and_then(|khz| opps.iter().position(|o| o.khz >= khz)).unwrap_or(0);
            self.m.clocks[domain.at()].opp = opp;
            self.set_clock(domain, opp);
        }
        for cpu in 0..self.s.nr_cpus() as u32 {
            self.enable_idle_states(CpuId(cpu));
        }
    }

    /// What does not change while the CPU is up is derived here, once.
    fn enable_idle_states(&mut self, cpu: CpuId) {
        let known = self.m.platform.idle_states(cpu);
        let mut states: Vec<CpuidleState> = known.iter().map(CpuidleState::from).collect();
        let mask = known.iter().enumerate().fold(0, |mask, (i, s)| mask | u32::from(s.disabled) << i);
        let context = &mut self.cpus[cpu.at()];
        context.disable_mask = mask;
        context.poll_time_ns = self.s.poll_time.cpuidle_poll_time(&states, mask, self.s.tick_ns);
        states.iter_mut().for_each(|s| s.polling &= self.s.polling_is_told);
        self.cpuidle.enable(cpu, &states);
    }

    /// The threads of the workload, which are new, and those that have been there: background threads of the platform or of a recording,
    /// and threads that a recording does not show as born. Each is woken a little after its start, as far apart as the platform's noise says:
    /// by a launcher on the first CPU, or, who has been there and works at once, by a timer where it was.
    fn create_threads(&mut self) -> Result<(), RunError> {
        let spread = self.m.platform.noise.start_spread_ns;
        for task in 0..self.programs.nr_tasks() {
            if is_elsewhere(self.programs.spec(task), self.s.nr_cpus()) {
                continue;
            }
            for _ in 0..self.programs.spec(task).instances {
                let pid = self.create_thread(task, None)?;
                let prev_cpu = self.prev_cpu(task);
                let machines = !self.programs.is_workload(task);
                self.s.tasks[pid.at()].housekeeping = machines;
                if machines || prev_cpu.is_some() {
                    self.has_been(pid, prev_cpu, self.programs.spec(task).prev_util);
                }
                if prev_cpu.is_some_and(|cpu| self.sleeps_already(pid, cpu)) {
                    continue;
                }
                let stream = self.programs.stream(pid);
                let late = Rng::stream(self.seed, &format!("start/{stream}")).uniform(0, spread);
                let late = late + self.programs.spec(task).start.0;
                let by = prev_cpu.filter(|_| !self.programs.begins_with_wait(pid)).unwrap_or(CpuId(0));
                self.m.timers.arm(by, pid, TimerKind::Sleep, late, late);
            }
        }
        Ok(())
    }

    /// A created thread is not new: it sleeps on the first CPU it may use, or will be woken first where it was; of its past no more counts
    /// than its utilisation.
    fn has_been(&mut self, pid: Pid, prev_cpu: Option<CpuId>, util: u16) {
        let task = &mut self.s.tasks[pid.at()];
        task.state = if prev_cpu.is_some() { State::New } else { State::Sleeping };
        task.cpu = prev_cpu.or(task.cpus.min()).expect("a thread may run somewhere");
        task.recent_used_cpu = task.cpu;
        let (cpu, i) = (task.cpu, self.s.se_of(pid));
        fair::set_task_rq(&mut self.s, pid, cpu);
        let load_avg = se_weight(&self.s.se[i]) * u64::from(util) / CAPACITY_SCALE;
        let util_avg = u64::from(util);
        self.s.se[i].avg = SchedAvg { util_avg, runnable_avg: util_avg, load_avg, ..SchedAvg::default() };
        if let Some(w) = &mut self.s.walt {
            w.tasks[pid.at()] = WaltTask::default();
        }
    }

    /// A thread that has been there and begins with a wait is in it: it went to sleep on this CPU before the start.
    fn sleeps_already(&mut self, pid: Pid, cpu: CpuId) -> bool {
        let starts = self.programs.spec(self.programs.task(pid)).start;
        if starts.0 > 0 || !self.programs.begins_with_wait(pid) {
            return false;
        }
        let step = self.programs.resume(pid, Ns(self.s.now), &mut self.effects);
        self.apply_effects(cpu);
        self.s.tasks[pid.at()].state = State::Sleeping;
        if let Step::Sleep { until } = step {
            self.arm_sleep(cpu, pid, until.0);
        }
        true
    }

    /// Where the threads of this task were before the start, if they may run there.
    pub(crate) fn prev_cpu(&self, task: u32) -> Option<CpuId> {
        let spec = self.programs.spec(task);
        let allowed = |cpu: &CpuId| spec.cpus.as_ref().is_none_or(|cpus| cpus.contains(*cpu));
        spec.prev_cpu.filter(|cpu| cpu.at() < self.s.nr_cpus()).filter(allowed)
    }

    /// `copy_process`: a thread of `task` exists; it has never run.
    pub(crate) fn create_thread(&mut self, task: u32, fork: Option<Fork>) -> Result<Pid, RunError> {
        let pid = Pid(self.s.tasks.len() as u32);
        match &fork {
            Some(fork) => self.programs.start_forked(pid, fork, Ns(self.s.now)),
            None => self.programs.start(pid, task, Ns(self.s.now)),
        }
        let (attr, group) = (*self.programs.attr(pid), self.programs.group(pid));
        let all = CpuSet::first(self.s.nr_cpus());
        let cpus = self.programs.affinity(pid).map_or(all.clone(), |c| c.and(&all));
        if cpus.is_empty() {
            let thread = self.programs.name(pid);
            let nr = self.s.nr_cpus();
            let why = format!("thread `{thread}` may run on no CPU of this platform, which has {nr}\n{OTHER_CPUS}");
            return Err(RunError::Workload(why));
        }
        let told = (!all.is_subset(&cpus)).then(|| cpus.clone());
        let home = fork.as_ref().map_or(CpuId(0), |f| self.s.tasks[f.parent.at()].cpu);
        self.add_task(pid, &attr, cpus, group, home)?;
        self.out.thread(&ThreadInfo {
            pid,
            comm: self.programs.name(pid).to_string(),
            task: self.programs.spec(task).name.clone(),
            policy: self.programs.spec(task).attr.policy.name(),
            workload: self.programs.is_workload(task),
            group,
            dl: DlParams::of(&self.programs.spec(task).attr),
            asked: Asked::of(&self.programs.spec(task).attr),
            cpus: told,
        });
        if group != 0 {
            self.tell_attached(pid, home);
        }
        Ok(pid)
    }

    /// A thread that exists and sleeps, or is new.
    pub(crate) fn add_task(
        &mut self,
        pid: Pid,
        attr: &SchedAttr,
        cpus: CpuSet,
        group: u32,
        home: CpuId,
    ) -> Result<(), RunError> {
        let task = Task {
            pid,
            state: State::New,
            cpu: home,
            recent_used_cpu: home,
            nr_cpus_allowed: cpus.len() as u32,
            cpus,
            group,
            ..Task::default()
        };
        self.s.tasks.push(task);
        self.walt_new_task();
        self.s.se.push(SchedEntity::default());
        self.m.add_thread(pid);
        self.check_attr(pid, attr)?;
        self.apply_attr(pid, attr);
        fair::init_task(&mut self.s, pid);
        Ok(())
    }

    fn create_stoppers(&mut self) -> Result<(), RunError> {
        for cpu in 0..self.s.nr_cpus() as u32 {
            let pid = Pid(self.s.tasks.len() as u32);
            let attr = SchedAttr { policy: Policy::Fifo, rt_priority: 99, ..SchedAttr::default() };
            self.add_task(pid, &attr, CpuSet::one(CpuId(cpu)), 0, CpuId(cpu))?;
            let task = &mut self.s.tasks[pid.at()];
            (task.stopper, task.per_cpu_kthread, task.state) = (true, true, State::Sleeping);
            self.cpus[cpu as usize].stop.pid = pid;
            let info = ThreadInfo {
                pid,
                comm: format!("migration/{cpu}"),
                task: "migration".into(),
                policy: Policy::Fifo.name(),
                ..ThreadInfo::default() // its name tells its CPU
            };
            self.out.thread(&info);
        }
        Ok(())
    }

    /// What `sched_setattr` refuses: parameters of deadline tasks out of range, and more than there is room for.
    pub(crate) fn check_attr(&self, pid: Pid, attr: &SchedAttr) -> Result<(), RunError> {
        if attr.policy != Policy::Deadline {
            return Ok(());
        }
        let (runtime, deadline, period) = (attr.runtime.0, attr.deadline.0, attr.period.0);
        let name = self.programs.name(pid);
        let refuse = |why: String| Err(RunError::Workload(format!("thread `{name}`: sched_setattr: {why}")));
        let (least, most) = self.s.rd.dl_period_ns;
        if runtime < 1024 || !(least..=most).contains(&period) {
            let range = format!("{} to {} µs", least / 1000, most / 1000);
            return refuse(format!(
                "invalid argument (EINVAL): dl-runtime is at least 2 µs, dl-period {range}; rt-app ends here too\n\
                 the range is deadline.sched_deadline_period_min_us and _max_us, see --set"
            ));
        }
        if !(runtime <= deadline && deadline <= period) {
            return refuse(format!(
                "invalid argument (EINVAL): dl-runtime <= dl-deadline <= dl-period, not {} <= {} <= {} µs; rt-app ends \
                 here too",
                runtime / 1000,
                deadline / 1000,
                period / 1000
            ));
        }
        let (task, bw) = (&self.s.tasks[pid.at()], to_ratio(period, runtime));
        if task.policy == Policy::Deadline && task.dl.dl_bw == bw { Ok(()) } else { self.check_room(pid, bw) }
    }

    /// A deadline task that moves to other CPUs needs room there (FIDELITY(dl-affinity)).
    pub(crate) fn check_dl_bw(&self, pid: Pid) -> Result<(), RunError> {
        let task = &self.s.tasks[pid.at()];
        if task.policy == Policy::Deadline { self.check_room(pid, task.dl.dl_bw) } else { Ok(()) }
    }

    fn check_room(&self, pid: Pid, bw: u64) -> Result<(), RunError> {
        let Err((taken, there_is)) = dl_bandwidth::sched_dl_overflow(&self.s, pid, bw) else { return Ok(()) };
        let cpus = |bw: u64| {
            let thousandths = (bw * 1000 + dl_bandwidth::BW_UNIT / 2) / dl_bandwidth::BW_UNIT;
            format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
        };
        Err(RunError::Workload(format!(
            "thread `{}`: sched_setattr: device or resource busy (EBUSY): deadline tasks and fair servers have {} CPUs' worth already, this \
             one asks for {} more, and {} may be admitted on its CPUs; rt-app ends here too\n\
             lower dl-runtime, or lift the limit: --set rt.sched_rt_runtime_us=-1",
            self.programs.name(pid),
            cpus(taken),
            cpus(bw),
            cpus(there_is)
        )))
    }

    /// `__setscheduler`: the attributes of a task that is on no queue.
    pub(crate) fn apply_attr(&mut self, pid: Pid, attr: &SchedAttr) {
        debug_assert_ne!(pid, IDLE);
        let task = &mut self.s.tasks[pid.at()];
        (task.policy, task.nice, task.rt_priority) = (attr.policy, attr.nice, attr.rt_priority);
        task.normal_prio = normal_prio(attr);
        task.prio = task.normal_prio;
        if attr.policy == Policy::Deadline {
            let dl = &mut task.dl;
            (dl.dl_runtime, dl.dl_deadline, dl.dl_period) = (attr.runtime.0, attr.deadline.0, attr.period.0);
            dl.dl_bw = to_ratio(dl.dl_period, dl.dl_runtime);
            dl.dl_density = to_ratio(dl.dl_deadline, dl.dl_runtime);
            dl_bandwidth::admit(&mut self.s, pid);
            self.s.cancel_hrtimer(self.s.tasks[pid.at()].cpu, Hrtimer::Inactive(pid));
        }
        if self.s.clamped >= Clamped::Tasks {
            let task = &mut self.s.tasks[pid.at()];
            task.uclamp_req.0 = attr.util_min.map(u32::from).or(task.uclamp_req.0);
            task.uclamp_req.1 = attr.util_max.map(u32::from).or(task.uclamp_req.1);
            let asks = attr.util_min.is_some() || attr.util_max.is_some();
            if asks && !std::mem::replace(&mut self.s.rd.uclamp_used, true) {
                self.s.all_signals_change();
            }
        }
        uclamp_update(&mut self.s, pid);
        if attr.policy.is_fair() {
            let i = self.s.se_of(pid);
            let se = &mut self.s.se[i];
            // The kernel takes slices of 0.1 to 100 ms; none asked for, or not heard: the class sets it at the next request.
            let slice = if self.s.custom_slice { attr.runtime.0 } else { 0 };
            (se.custom_slice, se.slice) = (slice != 0, if slice == 0 { 0 } else { slice.clamp(100_000, 100_000_000) });
        }
    }
}

/// The priority of a task with these attributes that inherits none (`__normal_prio`).
pub(super) fn normal_prio(attr: &SchedAttr) -> u8 {
    match attr.policy {
        Policy::Deadline => 0,
        Policy::Fifo | Policy::Rr => 99 - attr.rt_priority.min(99),
        _ => (120 + i16::from(attr.nice)) as u8,
    }
}
