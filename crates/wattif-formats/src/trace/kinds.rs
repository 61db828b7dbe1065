//! The one table of events: names, the fields that are kept and what they are called in each format.
//!
//! Binary formats look fields up by name once per file, text once per line; both hand the numbers to [`Kind::event`].

use wattif_model::platform::CPUIDLE_STATE_MAX;
use wattif_model::trace::{
    BalanceChoice, BalanceKind, EnergyCandidate, Event, FrequencyChoice, IdleChoice, IdleWeights, Placement,
    PlacementReason, PrevState, Recorded,
};
use wattif_model::{CpuId, DomainId, Ns, Pid};

/// Most numeric fields of a kind: a weight for each idle state, and the state they are of.
pub(super) const INTS: usize = 1 + CPUIDLE_STATE_MAX;

/// Events that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
    Fork,
    NewTask,
    Rename,
    Exec,
    Exit,
    Idle,
    IdleMiss,
    CpuFrequency,
    IrqEnter,
    IrqExit,
    TimerWake,
    RtappStats,
    RtappConfigured,
    Mark,
    Touch,
    DeviceDone,
    DeadlineJob,
    TickStop,
    CgroupAttachTask,
    CfsThrottle,
    CfsUnthrottle,
    CfsPeriod,
    EnergyCandidate,
    Placement,
    Frequency,
    IdleChoice,
    IdleWeights,
    Balance,
    PeltCfs,
    PeltSe,
    WaltDemand,
}

/// A kind of event: its name and its fields. `|` separates what a field is called in different formats.
pub(super) struct Row {
    pub name: &'static str,
    pub kind: Kind,
    /// Numbers, in the order [`Kind::event`] wants them.
    pub ints: &'static [&'static str],
    /// Names of threads; the n-th belongs to the pid in `named[n]`.
    pub strs: &'static [&'static str],
    /// Index into `ints` of the pid that each of `strs` names.
    pub named: &'static [usize],
}

const fn row(
    name: &'static str,
    kind: Kind,
    ints: &'static [&'static str],
    strs: &'static [&'static str],
    named: &'static [usize],
) -> Row {
    Row { name, kind, ints, strs, named }
}

const TASK: &[&str] = &["pid", "prio", "target_cpu", "success"];
const NONE: &[&str] = &[];

/// All of them; the first ones are the most frequent.
pub(super) const ROWS: &[Row] = &[
    row(
        "sched_switch",
        Kind::Switch,
        &["prev_pid", "prev_prio", "prev_state", "next_pid", "next_prio"],
        &["prev_comm", "next_comm"],
        &[0, 3],
    ),
    row("cpu_idle", Kind::Idle, &["state", "cpu_id"], NONE, &[]),
    row("sched_waking", Kind::Waking, TASK, &["comm"], &[0]),
    row("sched_wakeup", Kind::Wakeup, TASK, &["comm"], &[0]),
    row("sched_wakeup_new", Kind::WakeupNew, TASK, &["comm"], &[0]),
    row("cpu_frequency", Kind::CpuFrequency, &["state", "cpu_id"], NONE, &[]),
    row("sched_migrate_task", Kind::Migrate, &["pid", "prio", "orig_cpu", "dest_cpu"], &["comm"], &[0]),
    row(
        "sched_process_fork",
        Kind::Fork,
        &["parent_pid|pid", "child_pid"],
        &["parent_comm|comm", "child_comm"],
        &[0, 1],
    ),
    row("task_newtask", Kind::NewTask, &["pid", "clone_flags"], &["comm"], &[0]),
    row("task_rename", Kind::Rename, &["pid"], &["newcomm"], &[0]),
    row("sched_process_exec", Kind::Exec, &["pid", "old_pid"], NONE, &[]),
    row("sched_process_exit", Kind::Exit, &["pid", "prio"], &["comm"], &[0]),
    row("cpu_idle_miss", Kind::IdleMiss, &["cpu_id", "state", "below|type"], NONE, &[]),
    row("irq_handler_entry", Kind::IrqEnter, NONE, NONE, &[]),
    row("irq_handler_exit", Kind::IrqExit, NONE, NONE, &[]),
    row("softirq_entry", Kind::IrqEnter, NONE, NONE, &[]),
    row("softirq_exit", Kind::IrqExit, NONE, NONE, &[]),
    row("ipi_entry", Kind::IrqEnter, NONE, NONE, &[]),
    row("ipi_exit", Kind::IrqExit, NONE, NONE, &[]),
    row("hrtimer_expire_entry", Kind::IrqEnter, NONE, NONE, &[]),
    row("hrtimer_expire_exit", Kind::IrqExit, NONE, NONE, &[]),
    row("wattif_timer_wake", Kind::TimerWake, &["pid", "wu_lat_ns", "missed"], NONE, &[]),
    row("wattif_rtapp_stats", Kind::RtappStats, &["pid", "wu_lat_ns", "run_ns", "period_ns", "slack_ns"], NONE, &[]),
    row("wattif_rtapp_configured", Kind::RtappConfigured, &["pid", "c_duration_us", "c_period_us"], NONE, &[]),
    row("tick_stop", Kind::TickStop, &["success"], NONE, &[]),
    row("cgroup_attach_task", Kind::CgroupAttachTask, &["dst_id", "pid"], &["comm"], &[1]),
    row("wattif_cfs_throttle", Kind::CfsThrottle, &["group", "cpu_id"], NONE, &[]),
    row("wattif_cfs_unthrottle", Kind::CfsUnthrottle, &["group", "cpu_id", "waited_ns"], NONE, &[]),
    row("wattif_cfs_period", Kind::CfsPeriod, &["group", "periods", "throttled", "burst_ns"], NONE, &[]),
    row("wattif_deadline_job", Kind::DeadlineJob, &["pid", "lateness_ns"], NONE, &[]),
    row("wattif_mark", Kind::Mark, &["pid", "mark", "began_ns"], NONE, &[]),
    row("wattif_touch", Kind::Touch, &["pid"], NONE, &[]),
    row("wattif_device_done", Kind::DeviceDone, &["pid", "device", "queued_ns", "service_ns"], NONE, &[]),
    row(
        "wattif_energy_candidate",
        Kind::EnergyCandidate,
        &["pid", "candidate_cpu|cpu", "candidate_util|util", "capacity", "fits", "energy", "delta"],
        NONE,
        &[],
    ),
    row(
        "wattif_placement",
        Kind::Placement,
        &["pid", "prev_cpu", "this_cpu", "target", "chosen_cpu|cpu", "reason", "scanned", "nr_running"],
        NONE,
        &[],
    ),
    row(
        "wattif_frequency",
        Kind::Frequency,
        &["domain", "next_khz", "prev_khz", "util", "util_avg", "util_est", "runnable_avg", "iowait_boost"],
        NONE,
        &[],
    ),
    row("wattif_idle", Kind::IdleChoice, &["state", "stop_tick", "predicted_ns", "sleep_length_ns"], NONE, &[]),
    row(
        "wattif_idle_weights",
        Kind::IdleWeights,
        &["entered", "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"],
        NONE,
        &[],
    ),
    row("wattif_balance", Kind::Balance, &["kind", "dst_cpu", "src_cpu", "moved", "imbalance"], NONE, &[]),
    row("pelt_cfs", Kind::PeltCfs, &["util_avg|util", "runnable_avg|runnable", "load_avg|load", "util_est"], NONE, &[]),
    row("pelt_se", Kind::PeltSe, &["pid", "util_avg|util", "runnable_avg|runnable", "load_avg|load"], NONE, &[]),
    row("wattif_walt_demand", Kind::WaltDemand, &["pid", "demand", "cpu_demand"], NONE, &[]),
];

/// Places of pids and of their priorities among the numbers of a kind.
pub(super) const fn prios(kind: Kind) -> &'static [(usize, usize)] {
    match kind {
        Kind::Switch => &[(0, 1), (3, 4)],
        Kind::Waking | Kind::Wakeup | Kind::WakeupNew | Kind::Migrate | Kind::Exit => &[(0, 1)],
        _ => &[],
    }
}

/// The row of an event called `name`.
pub(super) fn find(name: &[u8]) -> Option<&'static Row> {
    ROWS.iter().find(|r| r.name.as_bytes() == name)
}

/// `TASK_*` bits as `sched_switch` has them since 4.14.
pub(super) const TASK_INTERRUPTIBLE: i64 = 1;
const TASK_UNINTERRUPTIBLE: i64 = 2;
const EXIT_DEAD: i64 = 0x10;
const EXIT_ZOMBIE: i64 = 0x20;
/// "Parked" since [`TRACED_SINCE`], TASK_DEAD before.
const PARKED: i64 = 0x40;
/// The first kernel whose tracepoint has states of its own, not those of `task_struct`.
const TRACED_SINCE: (u32, u32) = (4, 14);
/// TASK_PARKED of `task_struct` since [`TASK_PARKED_SINCE`]; before, TASK_STATE_MAX, which is of a preempted thread.
const TASK_PARKED: i64 = 0x200;
const TASK_PARKED_SINCE: (u32, u32) = (3, 9);

/// The number a state has in `sched_switch`.
pub(super) const fn state_bits(state: PrevState) -> i64 {
    match state {
        PrevState::Running => 0,
        PrevState::Sleeping => TASK_INTERRUPTIBLE,
        PrevState::DiskSleep => TASK_UNINTERRUPTIBLE,
        PrevState::Dead => EXIT_DEAD,
    }
}

/// Does it depend on the release whether a raw `prev_state` is of a parked thread?
pub(super) const fn may_be_parked(bits: i64) -> bool {
    let (traced, task) = (bits & 0xff, bits & TASK_PARKED);
    match traced & PARKED {
        0 => traced == 0 && task != 0,
        _ => traced & (EXIT_DEAD | EXIT_ZOMBIE | TASK_UNINTERRUPTIBLE) == 0,
    }
}

/// What such a `prev_state`, which [`state`] takes for this, is of in a kernel of that release.
pub(super) fn settled(taken: PrevState, release: (u32, u32)) -> PrevState {
    match taken {
        PrevState::Dead if release >= TRACED_SINCE => PrevState::Sleeping,
        PrevState::Sleeping if release < TASK_PARKED_SINCE => PrevState::Running,
        taken => taken,
    }
}

/// What a raw `prev_state` stands for. Bit 0x40 is TASK_DEAD of old kernels and "parked" of new ones, 0x200 was "preempted" and then
/// "parked": a file that prints the kernel's letters says which, and [`letter_bits`] keeps them apart; so does the release, by which
/// [`settled`] decides on what [`may_be_parked`]. All other high bits say how the thread was preempted.
pub(super) const fn state(bits: i64) -> PrevState {
    let low = bits & (0xff | TASK_PARKED);
    if low & (EXIT_DEAD | EXIT_ZOMBIE | PARKED) != 0 {
        PrevState::Dead
    } else if low & TASK_UNINTERRUPTIBLE != 0 {
        PrevState::DiskSleep
    } else if low == 0 {
        PrevState::Running
    } else {
        PrevState::Sleeping
    }
}

/// The bits for letters such as `R+`, `S`, `D|K`. `x` is bit 0x40, dead, of old kernels; of new ones, tools that do not know it print it.
pub(super) fn letter_bits(text: &[u8]) -> i64 {
    match text.first() {
        Some(b'R') => 0,
        Some(b'D') => TASK_UNINTERRUPTIBLE,
        Some(b'X' | b'Z') => EXIT_DEAD,
        Some(b'x') => PARKED,
        _ => TASK_INTERRUPTIBLE,
    }
}

fn pid(n: i64) -> Pid {
    Pid(n.clamp(0, i32::MAX.into()) as u32)
}
/// That of SCHED_DEADLINE, −1, is the highest of FIFO here: the builder notes the policy.
fn prio(n: i64) -> u8 {
    n.clamp(0, 139) as u8
}
fn cpu(n: i64) -> CpuId {
    CpuId(n.clamp(0, u16::MAX.into()) as u32)
}
fn small(n: i64) -> u16 {
    n.clamp(0, u16::MAX.into()) as u16
}
/// Wraps as C does: `state=-1` and `state=4294967295` are the same.
fn word(n: i64) -> u32 {
    n as u32
}

impl Kind {
    /// The event of these numbers; `None` for kinds that only tell of threads, and for wake-ups that did not succeed.
    pub(super) fn event(self, n: &[i64; INTS], in_irq: bool) -> Option<Recorded> {
        let event = match self {
            Kind::Switch => Event::SchedSwitch {
                prev_pid: pid(n[0]),
                prev_prio: prio(n[1]),
                prev_state: state(n[2]),
                next_pid: pid(n[3]),
                next_prio: prio(n[4]),
            },
            Kind::Waking => Event::SchedWaking { pid: pid(n[0]), prio: prio(n[1]), target_cpu: cpu(n[2]), in_irq },
            Kind::Wakeup => Event::SchedWakeup { pid: pid(n[0]), prio: prio(n[1]), target_cpu: cpu(n[2]), in_irq },
            Kind::WakeupNew => Event::SchedWakeupNew { pid: pid(n[0]), prio: prio(n[1]), target_cpu: cpu(n[2]) },
            Kind::Migrate => {
                Event::SchedMigrateTask { pid: pid(n[0]), prio: prio(n[1]), orig_cpu: cpu(n[2]), dest_cpu: cpu(n[3]) }
            }
            Kind::Fork => Event::SchedProcessFork { pid: pid(n[0]), child_pid: pid(n[1]) },
            Kind::Exit => Event::SchedProcessExit { pid: pid(n[0]), prio: prio(n[1]) },
            Kind::Idle => Event::CpuIdle { state: word(n[0]) },
            Kind::IdleMiss => Event::CpuIdleMiss { state: word(n[1]), below: n[2] != 0 },
            Kind::CpuFrequency => {
                return Some(Recorded::CpuFrequency { cpu: cpu(n[1]), khz: word(n[0]) });
            }
            Kind::Exec => Event::SchedProcessExec { pid: pid(n[0]) },
            Kind::IrqEnter => return Some(Recorded::Irq { enter: true }),
            Kind::IrqExit => return Some(Recorded::Irq { enter: false }),
            Kind::TimerWake => Event::TimerWake { pid: pid(n[0]), wu_lat_ns: n[1].max(0) as u64, missed: n[2] != 0 },
            Kind::RtappStats => Event::RtappStats {
                pid: pid(n[0]),
                wu_lat_ns: n[1].max(0) as u64,
                run_ns: n[2].max(0) as u64,
                period_ns: n[3].max(0) as u64,
                slack_ns: n[4],
            },
            Kind::RtappConfigured => Event::RtappConfigured {
                pid: pid(n[0]),
                c_duration_us: n[1].max(0) as u64,
                c_period_us: n[2].max(0) as u64,
            },
            Kind::Mark => Event::Mark { pid: pid(n[0]), mark: word(n[1]), began_ns: n[2].max(0) as u64 },
            Kind::Touch => Event::Touch { pid: pid(n[0]) },
            Kind::DeviceDone => Event::DeviceDone {
                pid: pid(n[0]),
                device: word(n[1]),
                queued_ns: n[2].max(0) as u64,
                service_ns: n[3].max(0) as u64,
            },
            Kind::DeadlineJob => Event::DeadlineJob { pid: pid(n[0]), lateness_ns: n[1] },
            Kind::TickStop if n[0] == 0 => return None,
            Kind::TickStop => Event::TickStop,
            Kind::CgroupAttachTask => Event::CgroupAttachTask { pid: pid(n[1]), group: word(n[0]) },
            Kind::CfsThrottle => Event::CfsThrottle { group: word(n[0]) },
            Kind::CfsUnthrottle => Event::CfsUnthrottle { group: word(n[0]), waited_ns: n[2].max(0) as u64 },
            Kind::CfsPeriod => Event::CfsPeriod {
                group: word(n[0]),
                periods: word(n[1]),
                throttled: n[2] != 0,
                burst_ns: n[3].max(0) as u64,
            },
            Kind::EnergyCandidate => Event::EnergyCandidate {
                pid: pid(n[0]),
                candidate: EnergyCandidate {
                    cpu: cpu(n[1]),
                    util: word(n[2]),
                    capacity: word(n[3]),
                    fits: n[4] != 0,
                    energy: n[5] as u64,
                    delta: n[6],
                },
            },
            Kind::Placement => Event::Placement(Placement {
                pid: pid(n[0]),
                prev_cpu: cpu(n[1]),
                this_cpu: cpu(n[2]),
                target: cpu(n[3]),
                cpu: cpu(n[4]),
                reason: *PlacementReason::ALL.get(n[5] as usize)?,
                scanned: small(n[6]),
                nr_running: small(n[7]),
            }),
            Kind::Frequency => Event::Frequency(FrequencyChoice {
                domain: DomainId(word(n[0])),
                next_khz: word(n[1]),
                prev_khz: word(n[2]),
                util: word(n[3]),
                util_avg: word(n[4]),
                util_est: word(n[5]),
                runnable_avg: word(n[6]),
                iowait_boost: word(n[7]),
            }),
            Kind::IdleChoice => Event::Idle(IdleChoice {
                state: n[0].clamp(0, 255) as u8,
                stop_tick: n[1] != 0,
                predicted_ns: n[2] as u64,
                sleep_length_ns: n[3] as u64,
            }),
            Kind::IdleWeights => {
                let told = n[1..].iter().take_while(|w| **w >= 0).count();
                let mut weights = [0; CPUIDLE_STATE_MAX];
                weights.iter_mut().zip(&n[1..=told]).for_each(|(to, w)| *to = small(*w));
                Event::IdleWeights(IdleWeights { entered: n[0].clamp(0, 255) as u8, states: told as u8, weights })
            }
            Kind::Balance => Event::Balance(BalanceChoice {
                kind: *BalanceKind::ALL.get(n[0] as usize)?,
                dst_cpu: cpu(n[1]),
                src_cpu: cpu(n[2]),
                moved: small(n[3]),
                imbalance: word(n[4]),
            }),
            Kind::PeltCfs => Event::PeltCfs {
                util_avg: word(n[0]),
                runnable_avg: word(n[1]),
                load_avg: word(n[2]),
                util_est: word(n[3]),
            },
            Kind::PeltSe => {
                Event::PeltSe { pid: pid(n[0]), util_avg: word(n[1]), runnable_avg: word(n[2]), load_avg: word(n[3]) }
            }
            Kind::WaltDemand => Event::WaltDemand { pid: pid(n[0]), demand: word(n[1]), cpu_demand: word(n[2]) },
            Kind::NewTask | Kind::Rename => return None,
        };
        Some(Recorded::Event(event))
    }
}

/// The other way: the numbers of an event that is written, and whose row it is. `None` for events no file holds.
pub(super) fn numbers(event: &Event) -> Option<(Kind, [i64; INTS])> {
    let mut n = [0; INTS];
    let mut set = |values: &[i64]| n[..values.len()].copy_from_slice(values);
    let kind = match *event {
        Event::SchedSwitch { prev_pid, prev_prio, prev_state, next_pid, next_prio } => {
            set(&[prev_pid.0.into(), prev_prio.into(), state_bits(prev_state), next_pid.0.into(), next_prio.into()]);
            Kind::Switch
        }
        Event::SchedWaking { pid, prio, target_cpu, .. } => {
            set(&[pid.0.into(), prio.into(), target_cpu.0.into(), 1]);
            Kind::Waking
        }
        Event::SchedWakeup { pid, prio, target_cpu, .. } => {
            set(&[pid.0.into(), prio.into(), target_cpu.0.into(), 1]);
            Kind::Wakeup
        }
        Event::SchedWakeupNew { pid, prio, target_cpu } => {
            set(&[pid.0.into(), prio.into(), target_cpu.0.into(), 1]);
            Kind::WakeupNew
        }
        Event::SchedMigrateTask { pid, prio, orig_cpu, dest_cpu } => {
            set(&[pid.0.into(), prio.into(), orig_cpu.0.into(), dest_cpu.0.into()]);
            Kind::Migrate
        }
        Event::SchedProcessFork { pid, child_pid } => {
            set(&[pid.0.into(), child_pid.0.into()]);
            Kind::Fork
        }
        Event::SchedProcessExec { pid } => {
            set(&[pid.0.into(), pid.0.into()]);
            Kind::Exec
        }
        Event::SchedProcessExit { pid, prio } => {
            set(&[pid.0.into(), prio.into()]);
            Kind::Exit
        }
        Event::CpuIdle { state } => {
            set(&[state.into(), 0]);
            Kind::Idle
        }
        Event::CpuIdleMiss { state, below } => {
            set(&[0, state.into(), below.into()]);
            Kind::IdleMiss
        }
        Event::TimerWake { pid, wu_lat_ns, missed } => {
            set(&[pid.0.into(), wu_lat_ns as i64, missed.into()]);
            Kind::TimerWake
        }
        Event::RtappStats { pid, wu_lat_ns, run_ns, period_ns, slack_ns } => {
            set(&[pid.0.into(), wu_lat_ns as i64, run_ns as i64, period_ns as i64, slack_ns]);
            Kind::RtappStats
        }
        Event::RtappConfigured { pid, c_duration_us, c_period_us } => {
            set(&[pid.0.into(), c_duration_us as i64, c_period_us as i64]);
            Kind::RtappConfigured
        }
        Event::Mark { pid, mark, began_ns } => {
            set(&[pid.0.into(), mark.into(), began_ns as i64]);
            Kind::Mark
        }
        Event::Touch { pid } => {
            set(&[pid.0.into()]);
            Kind::Touch
        }
        Event::DeviceDone { pid, device, queued_ns, service_ns } => {
            set(&[pid.0.into(), device.into(), queued_ns as i64, service_ns as i64]);
            Kind::DeviceDone
        }
        Event::DeadlineJob { pid, lateness_ns } => {
            set(&[pid.0.into(), lateness_ns]);
            Kind::DeadlineJob
        }
        Event::TickStop => {
            set(&[1]);
            Kind::TickStop
        }
        Event::CgroupAttachTask { pid, group } => {
            set(&[group.into(), pid.0.into()]);
            Kind::CgroupAttachTask
        }
        Event::CfsThrottle { group } => {
            set(&[group.into()]);
            Kind::CfsThrottle
        }
        Event::CfsUnthrottle { group, waited_ns } => {
            set(&[group.into(), 0, waited_ns as i64]);
            Kind::CfsUnthrottle
        }
        Event::CfsPeriod { group, periods, throttled, burst_ns } => {
            set(&[group.into(), periods.into(), throttled.into(), burst_ns as i64]);
            Kind::CfsPeriod
        }
        Event::EnergyCandidate { pid, candidate: c } => {
            set(&[
                pid.0.into(),
                c.cpu.0.into(),
                c.util.into(),
                c.capacity.into(),
                c.fits.into(),
                c.energy as i64,
                c.delta,
            ]);
            Kind::EnergyCandidate
        }
        Event::Placement(p) => {
            set(&[
                p.pid.0.into(),
                p.prev_cpu.0.into(),
                p.this_cpu.0.into(),
                p.target.0.into(),
                p.cpu.0.into(),
                p.reason.number() as i64,
                p.scanned.into(),
                p.nr_running.into(),
            ]);
            Kind::Placement
        }
        Event::Frequency(f) => {
            set(&[
                f.domain.0.into(),
                f.next_khz.into(),
                f.prev_khz.into(),
                f.util.into(),
                f.util_avg.into(),
                f.util_est.into(),
                f.runnable_avg.into(),
                f.iowait_boost.into(),
            ]);
            Kind::Frequency
        }
        Event::Idle(i) => {
            set(&[i.state.into(), i.stop_tick.into(), i.predicted_ns as i64, i.sleep_length_ns as i64]);
            Kind::IdleChoice
        }
        Event::IdleWeights(w) => {
            n = [-1; INTS]; // there is no such state
            n[0] = w.entered.into();
            let states = usize::from(w.states).min(w.weights.len());
            n[1..].iter_mut().zip(&w.weights[..states]).for_each(|(to, w)| *to = (*w).into());
            Kind::IdleWeights
        }
        Event::Balance(b) => {
            set(&[b.kind.number() as i64, b.dst_cpu.0.into(), b.src_cpu.0.into(), b.moved.into(), b.imbalance.into()]);
            Kind::Balance
        }
        Event::PeltCfs { util_avg, runnable_avg, load_avg, util_est } => {
            set(&[util_avg.into(), runnable_avg.into(), load_avg.into(), util_est.into()]);
            Kind::PeltCfs
        }
        Event::PeltSe { pid, util_avg, runnable_avg, load_avg } => {
            set(&[pid.0.into(), util_avg.into(), runnable_avg.into(), load_avg.into()]);
            Kind::PeltSe
        }
        Event::WaltDemand { pid, demand, cpu_demand } => {
            set(&[pid.0.into(), demand.into(), cpu_demand.into()]);
            Kind::WaltDemand
        }
        Event::CpuFrequency { .. }
        | Event::CpuPower { .. }
        | Event::ClusterPower { .. }
        | Event::IdlePeriod(_)
        | Event::BalancePass(_)
        | Event::BalanceMoved { .. }
        | Event::ProgramStep { .. } => return None,
    };
    Some((kind, n))
}

/// The numbers of an event that has these alone.
pub(super) fn of<const N: usize>(first: [i64; N]) -> [i64; INTS] {
    let mut n = [0; INTS];
    n[..N].copy_from_slice(&first);
    n
}

/// The row of a kind.
pub(super) fn row_of(kind: Kind) -> &'static Row {
    ROWS.iter().find(|r| r.kind == kind).expect("every kind has a row")
}

/// Time 0 is not known before every event is read.
pub(super) const fn since(zero: u64, at: u64) -> Ns {
    Ns(at.saturating_sub(zero))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_back() {
        let p = Placement {
            pid: Pid(7),
            prev_cpu: CpuId(1),
            this_cpu: CpuId(2),
            target: CpuId(3),
            cpu: CpuId(4),
            reason: PlacementReason::Energy,
            scanned: 5,
            nr_running: 6,
        };
        let idle = IdleChoice { state: 2, stop_tick: true, predicted_ns: u64::MAX, sleep_length_ns: 1 };
        let events = [
            Event::SchedProcessExec { pid: Pid(7) },
            Event::SchedProcessExit { pid: Pid(7), prio: 139 },
            Event::CpuIdle { state: Event::IDLE_EXIT },
            Event::CpuIdleMiss { state: 3, below: true },
            Event::EnergyCandidate {
                pid: Pid(7),
                candidate: EnergyCandidate {
                    cpu: CpuId(4),
                    util: 300,
                    capacity: 1000,
                    fits: false,
                    energy: u64::MAX,
                    delta: -5,
                },
            },
            Event::Placement(p),
            Event::Idle(idle),
            Event::IdleWeights(IdleWeights { entered: 1, states: 3, weights: [5, 70, 25, 0, 0, 0, 0, 0, 0, 0] }),
            Event::RtappStats { pid: Pid(1), wu_lat_ns: 2, run_ns: 3, period_ns: 4, slack_ns: -5 },
        ];
        for event in events {
            let (kind, n) = numbers(&event).unwrap();
            assert_eq!(kind.event(&n, false), Some(Recorded::Event(event)));
        }
    }

    /// Every kind of the simulator's events, with every reason and every balance pass.
    #[test]
    fn all_kinds_to_numbers_and_back() {
        let of_recordings = [Kind::NewTask, Kind::Rename, Kind::CpuFrequency, Kind::IrqEnter, Kind::IrqExit];
        for row in ROWS {
            let mut read = 0;
            for i in 0..PlacementReason::ALL.len() as i64 {
                let Some(Recorded::Event(event)) = row.kind.event(&[i; INTS], false) else { continue };
                let (kind, n) = numbers(&event).expect(row.name);
                assert_eq!((kind, kind.event(&n, false)), (row.kind, Some(Recorded::Event(event))));
                read += 1;
            }
            let all = match row.kind {
                kind if of_recordings.contains(&kind) => 0,
                Kind::Balance => BalanceKind::ALL.len(),
                Kind::TickStop => PlacementReason::ALL.len() - 1, // 0: it was not stopped
                _ => PlacementReason::ALL.len(),
            };
            assert_eq!(read, all, "{}", row.name);
        }
    }

    #[test]
    fn states() {
        for s in [PrevState::Running, PrevState::Sleeping, PrevState::DiskSleep, PrevState::Dead] {
            assert_eq!(state(state_bits(s)), s);
        }
        let check = |text: &str, s| assert_eq!(state(letter_bits(text.as_bytes())), s, "{text}");
        check("R+", PrevState::Running);
        check("D|K", PrevState::DiskSleep);
        check("W", PrevState::Sleeping);
        assert!(
            !["X", "Z"].iter().any(|s| may_be_parked(letter_bits(s.as_bytes()))) && may_be_parked(letter_bits(b"x"))
        );
        assert_eq!((state(4096), state(0x100), state(64)), (PrevState::Running, PrevState::Running, PrevState::Dead));
        assert_eq!(
            (state(0x200), state(0x202), state(0x400)),
            (PrevState::Sleeping, PrevState::DiskSleep, PrevState::Running)
        );
        assert_eq!([0x40, 0x200, 0x201, 0x42, 0x400].map(may_be_parked), [true, true, false, false, false]);
    }
}
