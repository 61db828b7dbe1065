//! WALT, window-assisted load tracking: how much a task ran in its last five windows, how busy a CPU was in the last one.
//!
//! # Idea
//! Time is cut into windows of a few ticks. What a task executed in a window is one sample; its *demand* is the larger of
//! the last sample and the mean of five, so it follows a change within a window or two and does not fade while the
//! task sleeps. What a CPU executed in the last complete window is its utilisation: after an idle window it is 0.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `demand` | scaled ns, 0..=window | the task's last five windows that were not empty | when a window closes |
//! | `curr_window`, `prev_window` | scaled ns, 0..=window | what the task ran in this and the last window | every event |
//! | `curr_runnable_sum`, `prev_runnable_sum` | scaled ns, 0..=window | run in this and the last window | every event |
//! | `cumulative_runnable_avg` | scaled ns | Σ demand of the queued tasks | enqueue, dequeue, demand |
//! | `cum_window_demand` | scaled ns | Σ demand of all that ran or will run in this window | the same, and rollover |
//! | `avg_irqload` | ns | interrupt time per tick | end of an interrupt |
//!
//! Scaled: what it would have taken on a CPU of capacity 1024 at its highest frequency.
//!
//! # Decision
//! 1. An event on a CPU first moves the CPU's window on, over several windows if need be.
//! 2. Demand: time on a CPU counts, waiting for it counts if `account_wait_time`, sleep does not. A window that closes becomes a
//!    sample, a task that ran through k complete windows gets k full ones, and empty windows are not recorded.
//! 3. demand := last sample (`recent`), largest (`max`), mean of five (`avg`), or the larger of last and mean (`max_recent_avg`).
//! 4. Busy time: running counts, waiting only with `freq_account_wait_time`, an idle CPU's interrupts count, and with
//!    `io_is_busy` all of its time while a thread that last ran there waits for a device. The CPU's sums roll over with its
//!    current task, the idle task included.
//! 5. A task that moves takes its `curr_window` and `prev_window` with it.
//!
//! Worked example: windows of 10 ms, full speed; the five samples of a new task are 1.5 ms. It starts to run at 4 ms and does
//! not stop. At the tick at 10 ms the window closes with 6 ms: the mean is (6 + 4·1.5)/5 = 2.4 ms, demand 6 ms. At 20 ms
//! a full one: the mean is (10 + 6 + 3·1.5)/5 = 4.1, demand 10 ms: 1024.
//!
//! # State and cost
//! 14 words per task, 8 per CPU. An event is a comparison and an addition; closing a window moves five samples.
//!
//! # Where it fails
//! The running window is invisible until it closes: half a window late on average. A task that waits for a GPU or disk has
//! windows of little work and loses its frequency although its next burst is long. What it needs after a long sleep is what
//! it needed before, also when that was long ago and something else.
//!
//! # Differences from the kernel
//! FIDELITY(walt-clock): the window clock is the simulation's. No vectors exist. What the vendor's later kernels add is in `walt_qti`.
//!
//! # Source
//! Android common kernel 4.9, `kernel/sched/walt.c`; S. Muckle, "WALT vs PELT: redux" (2017).

use super::walt_qti::QtiSystem;
use crate::registry::Tunable;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "window_ms",
        default: "20",
        allowed: &["10..=1000", "display"],
        doc: "length of a window, ms, cut to a multiple of the tick; display: by its rate, see walt_qti",
    },
    Tunable {
        name: "policy",
        default: "max_recent_avg",
        allowed: &["recent", "max", "max_recent_avg", "avg"],
        doc: "what of its samples a task's demand is",
    },
    Tunable {
        name: "account_wait_time",
        default: "true",
        allowed: &["true", "false"],
        doc: "waiting for a CPU counts into a task's demand",
    },
    Tunable {
        name: "freq_account_wait_time",
        default: "false",
        allowed: &["true", "false"],
        doc: "waiting for a CPU counts into the CPU's busy time",
    },
    Tunable {
        name: "io_is_busy",
        default: "false",
        allowed: &["true", "false"],
        doc: "an idle CPU with a thread in I/O wait is busy",
    },
    Tunable {
        name: "init_task_load_pct",
        default: "15",
        allowed: &["0..=100"],
        doc: "demand of a new task, percent of a window",
    },
];

/// `RAVG_HIST_SIZE`.
pub const HISTORY: usize = 5;

/// What of its samples a task's demand is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The last.
    Recent,
    /// The largest.
    Max,
    /// The larger of the last and the mean.
    #[default]
    MaxRecentAvg,
    /// The mean.
    Avg,
}

impl Policy {
    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Policy> {
        match name {
            "recent" => Some(Policy::Recent),
            "max" => Some(Policy::Max),
            "max_recent_avg" => Some(Policy::MaxRecentAvg),
            "avg" => Some(Policy::Avg),
            _ => None,
        }
    }
}

/// The tracker: its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walt {
    /// Length of a window, ns, a multiple of the tick.
    pub window_ns: u64,
    /// Rule for demand.
    pub policy: Policy,
    /// Waiting counts into demand.
    pub account_wait_time: bool,
    /// Waiting counts into busy time.
    pub freq_account_wait_time: bool,
    /// I/O wait of an idle CPU counts as busy.
    pub io_is_busy: bool,
    /// Demand of a new task, percent of a window.
    pub init_task_load_pct: u64,
}

/// What happened (`enum task_event`), which says what the time since the task's last event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It leaves the CPU: it was running.
    PutPrevTask,
    /// It is about to run: it was waiting.
    PickNextTask,
    /// It wakes, or moves while its dequeue is delayed: it slept.
    TaskWake,
    /// It changes its queue: it was waiting.
    TaskMigrate,
    /// Tick, change of frequency, or before a migration: it was running.
    TaskUpdate,
    /// An interrupt of so many ns ended on an idle CPU.
    IrqUpdate(u64),
}

/// Whose event it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// The idle task.
    pub idle: bool,
    /// It is exiting.
    pub exiting: bool,
    /// It is the current task of the CPU.
    pub current: bool,
    /// A thread that last ran on the CPU waits for a device.
    pub iowait: bool,
}

/// What is kept per task (`struct ravg`). The idle task has one per CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaltTask {
    /// Time of the last event, ns; 0: none yet.
    pub mark_start: u64,
    /// Scaled time in the present window, for demand.
    pub sum: u64,
    /// See [`Policy`]; scaled ns per window.
    pub demand: u64,
    /// Samples, the last first.
    pub history: [u64; HISTORY],
    /// Scaled busy time in the present window.
    pub curr_window: u64,
    /// And in the last one.
    pub prev_window: u64,
    /// Windows it has seen.
    pub active_windows: u32,
    /// Samples recorded, wrapping.
    pub samples: u32,
    /// When it went to sleep last, ns.
    pub last_sleep_ts: u64,
    /// Its demand is in the sums of its CPU.
    pub queued: bool,
}

/// What is kept per CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaltRq {
    /// Begin of the present window, ns.
    pub window_start: u64,
    /// Scaled busy time in it.
    pub curr_runnable_sum: u64,
    /// And in the last one.
    pub prev_runnable_sum: u64,
    /// Σ demand of the queued tasks.
    pub cumulative_runnable_avg: u64,
    /// Σ demand of what ran or will run in this window.
    pub cum_window_demand: u64,
    /// Interrupt time since the last fold, ns.
    pub cur_irqload: u64,
    /// Decayed interrupt time per tick, ns.
    pub avg_irqload: u64,
    /// Tick number of the last interrupt.
    pub irqload_ts: u64,
}

/// The tracker of a system: its parameters, its tasks by pid, its CPUs and their idle tasks.
#[derive(Clone, Debug)]
pub struct WaltSystem {
    /// Parameters.
    pub walt: Walt,
    /// By pid; 0 is nobody.
    pub tasks: Vec<WaltTask>,
    /// By CPU.
    pub rqs: Vec<WaltRq>,
    /// By CPU.
    pub idle: Vec<WaltTask>,
    /// The vendor's additions, if any is switched on.
    pub qti: Option<Box<QtiSystem>>,
}

impl WaltSystem {
    /// CPUs without tasks.
    pub fn new(walt: Walt, nr_cpus: usize) -> WaltSystem {
        let (rqs, idle) = (vec![WaltRq::default(); nr_cpus], vec![WaltTask::default(); nr_cpus]);
        WaltSystem { walt, tasks: vec![WaltTask::default()], rqs, idle, qti: None }
    }
}

/// Gap in ticks after which interrupt load starts anew.
const IRQLOAD_RESET_TICKS: u64 = 10;
/// Ticks without an interrupt after which a CPU is no longer loaded by them.
const IRQLOAD_TIMEOUT_TICKS: u64 = 3;
/// `walt_cpu_high_irqload`, ns.
const HIGH_IRQLOAD_NS: u64 = 10_000_000;

/// `scale_exec_time`: what `delta` ns are worth at a capacity of 0..=1024.
#[inline]
fn scale(delta: u64, capacity_curr: u64) -> u64 {
    (delta * capacity_curr) >> 10
}

impl Walt {
    /// A window of `ms` cut to a multiple of the tick (at least one), the other parameters as in the Android kernel.
    pub fn new(window_ms: u64, tick_ns: u64) -> Walt {
        Walt {
            window_ns: (window_ms * 1_000_000 / tick_ns).max(1) * tick_ns,
            policy: Policy::MaxRecentAvg,
            account_wait_time: true,
            freq_account_wait_time: false,
            io_is_busy: false,
            init_task_load_pct: 15,
        }
    }

    /// `init_new_task_load`.
    pub fn new_task(&self) -> WaltTask {
        let demand = self.window_ns * self.init_task_load_pct / 100;
        WaltTask { demand, history: [demand; HISTORY], ..WaltTask::default() }
    }

    /// `walt_update_task_ravg`: the one entry point. `capacity_curr` is the CPU's capacity at its present frequency.
    #[doc(alias = "walt_update_task_ravg")]
    pub fn update(&self, p: &mut WaltTask, rq: &mut WaltRq, who: Who, event: Event, now: u64, capacity_curr: u64) {
        // A mark of 0 stands for "none yet", so nothing happens before 1.
        let now = now.max(1);
        self.update_window_start(rq, now);
        if p.mark_start != 0 {
            self.update_task_demand(p, rq, who, event, now, capacity_curr);
            self.update_cpu_busy_time(p, rq, who, event, now, capacity_curr);
        }
        p.mark_start = now;
    }

    fn update_window_start(&self, rq: &mut WaltRq, now: u64) {
        let windows = now.saturating_sub(rq.window_start) / self.window_ns;
        if windows > 0 {
            rq.window_start += windows * self.window_ns;
            rq.cum_window_demand = rq.cumulative_runnable_avg;
        }
    }

    /// `account_busy_for_task_demand`.
    fn counts_for_demand(&self, who: Who, event: Event) -> bool {
        if who.idle || who.exiting {
            return false;
        }
        match event {
            Event::TaskWake => false,
            Event::PickNextTask | Event::TaskMigrate => self.account_wait_time,
            Event::PutPrevTask | Event::TaskUpdate | Event::IrqUpdate(_) => true,
        }
    }

    fn update_task_demand(&self, p: &mut WaltTask, rq: &mut WaltRq, who: Who, event: Event, now: u64, capacity: u64) {
        let (w, start, mark) = (self.window_ns, rq.window_start, p.mark_start);
        let new_window = mark < start;
        if !self.counts_for_demand(who, event) {
            if new_window {
                self.update_history(p, rq, who, p.sum, 1);
            }
            return;
        }
        let add = |p: &mut WaltTask, delta: u64| p.sum = (p.sum + scale(delta, capacity)).min(w);
        if !new_window {
            return add(p, now - mark);
        }
        let full = (start - mark) / w;
        let end_of_first = start - full * w;
        add(p, end_of_first - mark);
        self.update_history(p, rq, who, p.sum, 1);
        if full > 0 {
            self.update_history(p, rq, who, scale(w, capacity), full);
        }
        p.sum = scale(now - start, capacity).min(w);
    }

    /// `copies` windows closed, each with `sample`. Empty windows are not recorded.
    fn update_history(&self, p: &mut WaltTask, rq: &mut WaltRq, who: Who, sample: u64, copies: u64) {
        if sample == 0 || copies == 0 || who.idle || who.exiting {
            return;
        }
        let copies = copies.min(HISTORY as u64) as usize;
        p.samples = p.samples.wrapping_add(copies as u32);
        p.history.copy_within(..HISTORY - copies, copies);
        p.history[..copies].fill(sample);
        p.sum = 0;
        let mean = p.history.iter().sum::<u64>() / HISTORY as u64;
        let demand = match self.policy {
            Policy::Recent => sample,
            Policy::Max => p.history.iter().copied().max().unwrap_or(0),
            Policy::MaxRecentAvg => sample.max(mean),
            Policy::Avg => mean,
        };
        let change = demand as i64 - p.demand as i64;
        if p.queued {
            rq.cumulative_runnable_avg = rq.cumulative_runnable_avg.saturating_add_signed(change);
            rq.cum_window_demand = rq.cum_window_demand.saturating_add_signed(change);
        } else if who.current {
            // It has left the queue, and the sum began anew without it.
            rq.cum_window_demand += demand;
        }
        p.demand = demand;
    }

    /// `cpu_is_waiting_on_io`.
    fn waits_for_io(&self, who: Who) -> bool {
        self.io_is_busy && who.iowait
    }

    /// `account_busy_for_cpu_time`.
    fn counts_for_cpu(&self, who: Who, event: Event) -> bool {
        if who.idle {
            let irq = matches!(event, Event::IrqUpdate(_));
            return event != Event::PickNextTask && (irq || self.waits_for_io(who));
        }
        match event {
            Event::TaskWake => false,
            Event::PickNextTask | Event::TaskMigrate => self.freq_account_wait_time,
            Event::PutPrevTask | Event::TaskUpdate | Event::IrqUpdate(_) => true,
        }
    }

    fn update_cpu_busy_time(&self, p: &mut WaltTask, rq: &mut WaltRq, who: Who, event: Event, now: u64, capacity: u64) {
        let (w, start, mark) = (self.window_ns, rq.window_start, p.mark_start);
        let new_window = mark < start;
        let full = if new_window { (start - mark) / w } else { 0 };
        if new_window {
            p.prev_window = if full > 0 { 0 } else { p.curr_window };
            p.curr_window = 0;
            p.active_windows = p.active_windows.saturating_add(u32::from(!who.idle));
        }
        if !self.counts_for_cpu(who, event) {
            if new_window && who.current {
                rq.prev_runnable_sum = if full > 0 { 0 } else { rq.curr_runnable_sum };
                rq.curr_runnable_sum = 0;
            }
            return;
        }
        // Where the whole interval counts, the interrupt's part of it does already.
        if let (true, Event::IrqUpdate(irq_ns)) = (who.idle && !self.waits_for_io(who), event) {
            return self.account_irq(rq, new_window, now, irq_ns, capacity);
        }
        if !new_window {
            let delta = scale(now - mark, capacity);
            rq.curr_runnable_sum += delta;
            p.curr_window += if who.idle { 0 } else { delta };
            return;
        }
        let before = if full > 0 { scale(w, capacity) } else { scale(start - mark, capacity) };
        let since = scale(now - start, capacity);
        if who.current {
            rq.prev_runnable_sum = if full > 0 { before } else { rq.curr_runnable_sum + before };
            rq.curr_runnable_sum = since;
        } else {
            // It waited; the CPU's own sums have rolled over with the current task.
            rq.prev_runnable_sum += before;
            rq.curr_runnable_sum += since;
        }
        if !who.idle {
            p.prev_window = if full > 0 { before } else { p.prev_window + before };
            p.curr_window = since;
        }
    }

    /// An interrupt of an idle CPU, split where it straddles the begin of the window.
    fn account_irq(&self, rq: &mut WaltRq, new_window: bool, now: u64, irq_ns: u64, capacity: u64) {
        let began = now.saturating_sub(irq_ns);
        if !new_window {
            rq.curr_runnable_sum += scale(irq_ns, capacity);
            return;
        }
        rq.prev_runnable_sum = rq.curr_runnable_sum;
        if began > rq.window_start {
            rq.curr_runnable_sum = scale(irq_ns, capacity);
            return;
        }
        rq.prev_runnable_sum += scale((rq.window_start - began).min(self.window_ns), capacity);
        rq.curr_runnable_sum = scale(now - rq.window_start, capacity);
    }

    /// `walt_fixup_busy_time`, after the events of both CPUs' current tasks and of the task itself: its recent busy time
    /// moves with it. `waking`: it is being placed by a wake-up, or sleeps on.
    #[doc(alias = "walt_fixup_busy_time")]
    pub fn fixup_busy_time(&self, p: &WaltTask, src: &mut WaltRq, dst: &mut WaltRq, waking: bool) {
        if waking && p.last_sleep_ts >= src.window_start {
            // It ran in this window, so it is in the demand of the CPU it leaves.
            src.cum_window_demand = src.cum_window_demand.saturating_sub(p.demand);
            dst.cum_window_demand += p.demand;
        }
        src.curr_runnable_sum = src.curr_runnable_sum.saturating_sub(p.curr_window);
        dst.curr_runnable_sum += p.curr_window;
        src.prev_runnable_sum = src.prev_runnable_sum.saturating_sub(p.prev_window);
        dst.prev_runnable_sum += p.prev_window;
    }

    /// The task joins the queue; `moved`: by a migration or a change of priority.
    #[inline(never)]
    pub fn enqueue(&self, p: &mut WaltTask, rq: &mut WaltRq, moved: bool) {
        if std::mem::replace(&mut p.queued, true) {
            return;
        }
        rq.cumulative_runnable_avg += p.demand;
        // A task that slept in this window is in the window's demand already.
        if moved || p.last_sleep_ts < rq.window_start {
            rq.cum_window_demand += p.demand;
        }
    }

    /// The task leaves the queue; `sleeps`: because it blocks.
    #[inline(never)]
    pub fn dequeue(&self, p: &mut WaltTask, rq: &mut WaltRq, sleeps: bool) {
        if !std::mem::take(&mut p.queued) {
            return;
        }
        rq.cumulative_runnable_avg = rq.cumulative_runnable_avg.saturating_sub(p.demand);
        if !sleeps {
            rq.cum_window_demand = rq.cum_window_demand.saturating_sub(p.demand);
        }
    }

    /// An interrupt of `ns` ended in tick number `tick` (`walt_account_irqtime`).
    #[doc(alias = "walt_account_irqtime")]
    #[inline(never)]
    pub fn account_irqtime(&self, rq: &mut WaltRq, ns: u64, tick: u64) {
        let gap = tick.saturating_sub(rq.irqload_ts);
        if gap > 0 {
            // A new tick: what the ticks before had is folded in, and this interrupt is the first of the new one.
            let before = if gap < IRQLOAD_RESET_TICKS { rq.avg_irqload * 3 / 4 } else { 0 };
            (rq.avg_irqload, rq.cur_irqload, rq.irqload_ts) = (before + rq.cur_irqload, 0, tick);
        }
        rq.cur_irqload += ns;
    }

    /// `walt_cpu_high_irqload`: interrupts take so much of the CPU that wake-ups avoid it.
    pub fn high_irqload(&self, rq: &WaltRq, tick: u64) -> bool {
        rq.avg_irqload >= HIGH_IRQLOAD_NS && tick.saturating_sub(rq.irqload_ts) < IRQLOAD_TIMEOUT_TICKS
    }

    /// A task's utilisation, 0..=1024.
    pub fn task_util(&self, p: &WaltTask) -> u64 {
        p.demand * 1024 / self.window_ns
    }

    /// Utilisation of a CPU in its last complete window, 0..=1024: what the frequency governor reads. A CPU that has been idle
    /// since has not rolled over; the reader does it for it.
    pub fn cpu_util_freq(&self, rq: &WaltRq, now: u64) -> u64 {
        let busy = match self.elapsed(rq, now) {
            0 => rq.prev_runnable_sum,
            1 => rq.curr_runnable_sum,
            _ => 0,
        };
        (busy * 1024 / self.window_ns).min(1024)
    }

    /// Windows that have ended since the CPU last rolled: one that stays idle rolls at its next event, and until then the reader
    /// does it for it.
    pub fn elapsed(&self, rq: &WaltRq, now: u64) -> u64 {
        now.saturating_sub(rq.window_start) / self.window_ns
    }

    /// Utilisation of a CPU by the demand of all that ran or will run there in the window of `now`, 0.. (may exceed 1024);
    /// without `asleep`, a task of that CPU that sleeps.
    pub fn cpu_util_cum(&self, rq: &WaltRq, now: u64, asleep: Option<&WaltTask>) -> u64 {
        let ended = self.elapsed(rq, now);
        let demand = if ended == 0 { rq.cum_window_demand } else { rq.cumulative_runnable_avg };
        let window_start = rq.window_start + ended * self.window_ns;
        // Who slept before this window is not in the sum.
        let own = asleep.filter(|p| p.last_sleep_ts > 0 && p.last_sleep_ts >= window_start).map_or(0, |p| p.demand);
        demand.saturating_sub(own) * 1024 / self.window_ns
    }

    /// Utilisation of a CPU by its queued tasks' demand, 0.. (may exceed 1024): what placement reads.
    pub fn cpu_util(&self, rq: &WaltRq) -> u64 {
        rq.cumulative_runnable_avg * 1024 / self.window_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const TICK: u64 = 1_000_000;

    fn walt(window_ms: u64) -> Walt {
        Walt::new(window_ms, TICK)
    }

    fn running() -> Who {
        Who { current: true, ..Who::default() }
    }

    #[test]
    fn who_left_the_queue_just_before_a_window_closes_on_him_ran_in_the_new_one() {
        let w = walt(10);
        let (mut p, mut rq) = (w.new_task(), WaltRq::default());
        w.enqueue(&mut p, &mut rq, true);
        w.update(&mut p, &mut rq, running(), Event::TaskUpdate, 8 * MS, 1024);
        w.dequeue(&mut p, &mut rq, true);
        w.update(&mut p, &mut rq, running(), Event::PutPrevTask, 12 * MS, 1024);
        assert_eq!((p.demand, rq.cumulative_runnable_avg, rq.cum_window_demand), (2 * MS, 0, 2 * MS));
    }

    #[test]
    fn windows_are_multiples_of_the_tick() {
        let tick = 1_000_000_000 / 300;
        assert_eq!(Walt::new(10, tick).window_ns, 9_999_999);
        assert_eq!(Walt::new(20, tick).window_ns, 6 * tick);
    }

    #[test]
    fn worked_example() {
        let w = walt(10);
        let (mut p, mut rq) = (w.new_task(), WaltRq::default());
        assert_eq!(w.task_util(&p), 153);
        w.update(&mut p, &mut rq, Who::default(), Event::TaskWake, 4 * MS, 1024);
        for ms in 5..=10 {
            w.update(&mut p, &mut rq, running(), Event::TaskUpdate, ms * MS, 1024);
        }
        assert_eq!((p.demand, w.cpu_util_freq(&rq, 10 * MS)), (6 * MS, 614));
        w.update(&mut p, &mut rq, running(), Event::TaskUpdate, 20 * MS, 1024);
        assert_eq!((p.demand, w.task_util(&p), w.cpu_util_freq(&rq, 20 * MS)), (10 * MS, 1024, 1024));
        assert_eq!(p.history, [10 * MS, 6 * MS, 1_500_000, 1_500_000, 1_500_000]);
    }

    /// 2 ms of work, 5 ms of waiting for a device, which ends with an interrupt.
    #[test]
    fn io_wait_is_busy_where_asked_for() {
        for (io_is_busy, busy_ms) in [(false, 2), (true, 7)] {
            let w = Walt { io_is_busy, ..walt(10) };
            let (mut p, mut idle, mut rq) = (w.new_task(), WaltTask::default(), WaltRq::default());
            let waits = Who { idle: true, current: true, iowait: true, ..Who::default() };
            w.update(&mut p, &mut rq, Who::default(), Event::TaskWake, MS, 1024);
            w.update(&mut p, &mut rq, running(), Event::PutPrevTask, 3 * MS, 1024);
            w.update(&mut idle, &mut rq, waits, Event::PickNextTask, 3 * MS, 1024);
            w.update(&mut idle, &mut rq, waits, Event::IrqUpdate(0), 5 * MS, 1024);
            w.update(&mut idle, &mut rq, waits, Event::TaskUpdate, 8 * MS, 1024);
            assert_eq!(rq.curr_runnable_sum, busy_ms * MS, "{io_is_busy}");
        }
    }

    /// Runs 6 ms and sleeps; nothing happens on its CPU afterwards.
    #[test]
    fn a_window_that_ended_has_no_demand() {
        let w = walt(10);
        let (mut p, mut rq) = (w.new_task(), WaltRq::default());
        w.update(&mut p, &mut rq, Who::default(), Event::TaskWake, MS, 1024);
        w.enqueue(&mut p, &mut rq, true);
        w.update(&mut p, &mut rq, running(), Event::PutPrevTask, 7 * MS, 1024);
        w.dequeue(&mut p, &mut rq, true);
        p.last_sleep_ts = 7 * MS;
        let util = w.cpu_util_cum(&rq, 8 * MS, None);
        assert_eq!(util, p.demand * 1024 / (10 * MS));
        assert!(util > 0 && w.cpu_util_cum(&rq, 8 * MS, Some(&p)) == 0);
        for now in [10, 11, 10_000] {
            assert_eq!((w.cpu_util_cum(&rq, now * MS, None), w.cpu_util_cum(&rq, now * MS, Some(&p))), (0, 0));
        }
    }

    /// Runs 6 of every 10 ms for a while, sleeps 10 s, and is as it was; its CPU is not.
    #[test]
    fn demand_does_not_fade_in_sleep() {
        let w = walt(10);
        let (mut p, mut rq) = (w.new_task(), WaltRq::default());
        for round in 0..6 {
            let t = round * 10 * MS + MS;
            w.update(&mut p, &mut rq, Who::default(), Event::TaskWake, t, 1024);
            w.update(&mut p, &mut rq, running(), Event::PutPrevTask, t + 6 * MS, 1024);
        }
        let before = p.demand;
        w.update(&mut p, &mut rq, Who::default(), Event::TaskWake, 10_000 * MS, 1024);
        assert_eq!((before, p.demand), (6 * MS, 6 * MS));
        assert_eq!(w.cpu_util_freq(&rq, 10_100 * MS), 0);
    }

    #[test]
    fn a_migration_takes_the_recent_busy_time_along() {
        let w = walt(10);
        let (mut p, mut src, mut dst) = (w.new_task(), WaltRq::default(), WaltRq::default());
        w.update(&mut p, &mut src, Who::default(), Event::TaskWake, 2 * MS, 1024);
        w.update(&mut p, &mut src, running(), Event::TaskUpdate, 10 * MS, 1024);
        w.update(&mut p, &mut src, running(), Event::PutPrevTask, 13 * MS, 1024);
        dst.window_start = src.window_start;
        w.fixup_busy_time(&p, &mut src, &mut dst, false);
        assert_eq!((src.prev_runnable_sum, src.curr_runnable_sum), (0, 0));
        assert_eq!((dst.prev_runnable_sum, dst.curr_runnable_sum), (8 * MS, 3 * MS));
    }

    #[test]
    fn interrupt_load_fades_and_times_out() {
        let (w, mut rq) = (walt(10), WaltRq::default());
        // What a tick had shows from the next one on.
        for (tick, expect) in [(1, 0), (2, 3 * MS), (3, 5_250_000), (4, 6_937_500)] {
            w.account_irqtime(&mut rq, 3 * MS, tick);
            assert_eq!(rq.avg_irqload, expect, "tick {tick}");
        }
        for tick in 5..200 {
            w.account_irqtime(&mut rq, 2 * MS, tick);
            w.account_irqtime(&mut rq, MS, tick);
        }
        assert!(w.high_irqload(&rq, 200) && !w.high_irqload(&rq, 203));
        w.account_irqtime(&mut rq, 1, 300);
        assert_eq!(rq.avg_irqload, 3 * MS, "all but the last tick is forgotten");
        w.account_irqtime(&mut rq, 1, 301);
        assert_eq!(rq.avg_irqload, 2_250_001);
    }

    /// Ramp from the lowest to the highest frequency under an always-running task, 1.25 headroom, one decision per tick.
    fn ramp_ms(window_ms: u64, phase_ticks: u64, opps: &[u64]) -> f64 {
        let tick = 1_000_000_000 / 300;
        let w = Walt::new(window_ms, tick);
        let (mut p, mut rq, mut opp) = (WaltTask::default(), WaltRq::default(), 0);
        let fmax = opps[opps.len() - 1];
        let begin = 100 * w.window_ns + phase_ticks * tick / 8;
        w.update(&mut p, &mut rq, Who::default(), Event::TaskWake, begin, 1024);
        let mut now = begin / tick * tick;
        loop {
            now += tick;
            w.update(&mut p, &mut rq, running(), Event::TaskUpdate, now, 1024 * opps[opp] / fmax);
            let wanted = (fmax + fmax / 4) * w.cpu_util_freq(&rq, now) / 1024;
            let next = opps.iter().position(|&f| f >= wanted).unwrap_or(opps.len() - 1);
            opp = opp.max(next);
            if opp == opps.len() - 1 {
                return (now - begin) as f64 / 1e6;
            }
            assert!(now < begin + 3_000 * MS, "it never gets there");
        }
    }

    /// The independent figures: 80 to 89 ms by phase with windows of 10 ms, twice that with 20.
    #[test]
    fn ramp_up_as_published() {
        let gold: Vec<u64> = (0..32).map(|i| 300_000 + (2_457_600 - 300_000) * i / 31).collect();
        let mean = |w: u64, phases: u64| (0..phases).map(|p| ramp_ms(w, p, &gold)).sum::<f64>() / phases as f64;
        let (ten, twenty) = (mean(10, 24), mean(20, 48));
        assert!((76.0..=93.0).contains(&ten), "{ten}");
        assert!((1.9..=2.1).contains(&(twenty / ten)), "{twenty} against {ten}");
    }

    /// A task's life in pieces: (what, for how long, at which capacity).
    #[derive(Clone, Copy, Debug)]
    enum Piece {
        Run,
        Wait,
        Sleep,
    }

    fn pieces() -> impl Strategy<Value = Vec<(Piece, u64, u64)>> {
        let what = prop_oneof![Just(Piece::Run), Just(Piece::Wait), Just(Piece::Sleep)];
        let long = prop_oneof![1u64..3 * MS, 3 * MS..90 * MS];
        prop::collection::vec((what, long, 100u64..=1024), 1..60)
    }

    /// What the samples must be: cut the life at every window, add up, keep windows that are not empty.
    struct Oracle {
        window: u64,
        policy: Policy,
        closed: Vec<u64>,
        index: u64,
        sum: u64,
    }

    impl Oracle {
        fn add(&mut self, mut from: u64, to: u64, capacity: Option<u64>) {
            while from < to {
                self.roll(from);
                let end = to.min((self.index + 1) * self.window);
                self.sum = (self.sum + capacity.map_or(0, |c| scale(end - from, c))).min(self.window);
                from = end;
            }
            self.roll(to);
        }
        fn roll(&mut self, at: u64) {
            while at / self.window > self.index {
                if self.sum > 0 {
                    self.closed.insert(0, self.sum);
                }
                (self.sum, self.index) = (0, self.index + 1);
            }
        }
        fn demand(&self) -> u64 {
            let last = &self.closed[..HISTORY];
            let mean = last.iter().sum::<u64>() / HISTORY as u64;
            match self.policy {
                Policy::Recent => last[0],
                Policy::Max => *last.iter().max().unwrap(),
                Policy::MaxRecentAvg => last[0].max(mean),
                Policy::Avg => mean,
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_windows_counted_by_hand(
            life in pieces(),
            which in 0usize..4,
            wait in any::<bool>(),
            start in prop_oneof![Just(0), Just(7 * MS)],
        ) {
            let policy = [Policy::Recent, Policy::Max, Policy::MaxRecentAvg, Policy::Avg][which];
            let w = Walt { policy, account_wait_time: wait, ..walt(10) };
            let (mut p, mut rq, mut now) = (w.new_task(), WaltRq::default(), start);
            let init = p.demand;
            let mut oracle = Oracle { window: w.window_ns, policy, closed: vec![init; HISTORY], index: 0, sum: 0 };
            oracle.roll(now);
            // Woken and picked in one instant, which takes no time on a machine without costs.
            w.update(&mut p, &mut rq, Who::default(), Event::TaskWake, now, 1024);
            w.update(&mut p, &mut rq, Who::default(), Event::PickNextTask, now, 1024);
            for (what, ns, capacity) in life {
                let (event, who, counts) = match what {
                    Piece::Run => (Event::PutPrevTask, running(), true),
                    Piece::Wait => (Event::PickNextTask, Who::default(), wait),
                    Piece::Sleep => (Event::TaskWake, Who::default(), false),
                };
                oracle.add(now.max(1), now + ns, counts.then_some(capacity));
                now += ns;
                w.update(&mut p, &mut rq, who, event, now, capacity);
                prop_assert_eq!(p.history.as_slice(), &oracle.closed[..HISTORY]);
                prop_assert_eq!((p.demand, p.sum), (if oracle.closed.len() > HISTORY { oracle.demand() } else { init }, oracle.sum));
            }
        }

        #[test]
        fn a_cpu_is_as_busy_as_what_ran_on_it(life in pieces()) {
            let w = walt(10);
            let (mut p, mut idle, mut rq, mut now) = (w.new_task(), WaltTask::default(), WaltRq::default(), 0);
            let of_idle = Who { idle: true, current: true, ..Who::default() };
            let mut busy = std::collections::BTreeMap::<u64, u64>::new();
            w.update(&mut p, &mut rq, Who::default(), Event::TaskWake, now, 1024);
            w.update(&mut idle, &mut rq, of_idle, Event::PickNextTask, now, 1024);
            for (what, ns, capacity) in life {
                let (begin, end) = (now.max(1), now + ns);
                now = end;
                if matches!(what, Piece::Run) {
                    let mut from = begin;
                    while from < end {
                        let to = end.min((from / w.window_ns + 1) * w.window_ns);
                        *busy.entry(from / w.window_ns).or_default() += scale(to - from, capacity);
                        from = to;
                    }
                    w.update(&mut p, &mut rq, running(), Event::PutPrevTask, now, capacity);
                    w.update(&mut idle, &mut rq, Who { current: false, ..of_idle }, Event::PickNextTask, now, capacity);
                } else {
                    w.update(&mut idle, &mut rq, of_idle, Event::PutPrevTask, now, capacity);
                    w.update(&mut p, &mut rq, Who::default(), Event::TaskWake, now, capacity);
                }
                let window = now / w.window_ns;
                let of = |n: u64| busy.get(&n).copied().unwrap_or(0);
                prop_assert_eq!(rq.curr_runnable_sum, of(window));
                prop_assert_eq!(rq.prev_runnable_sum, window.checked_sub(1).map_or(0, of));
            }
        }
    }
}
