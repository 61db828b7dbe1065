//! What the vendor's later kernels add to WALT, each part a switch.
//!
//! # Idea
//! WALT's window is blind until it closes, and a CPU's busy time does not say whether one heavy task or five light ones
//! caused it. These parts look at single tasks: at the heaviest of a window, at those that wait too long, at those that have
//! just been born, and at how busy a task was the last times it had begun like this.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | top task | scaled ns, 0..=window | the heaviest task of the CPU's last window, in steps of a thousandth | every event |
//! | `ed_task` | a task | a queued one that has not slept for 9.5 ms | tick; gone when it leaves the queue |
//! | `pl` | scaled ns | Σ predicted demand of the queued tasks | enqueue, dequeue, when a window closes |
//! | `nl` | scaled ns, 0..=window | what tasks younger than 100 ms ran in the last window; it moves with them | every event |
//!
//! # Decision
//! 1. `per_cpu_windows`: a task that moves within a cluster leaves what it ran in this and the last window where it ran it;
//!    one that moves to another cluster takes it along from all CPUs of the old one.
//! 2. `top_tasks`: the CPU's load for the governor is at least the upper edge of the highest occupied of 1000 buckets. A
//!    task takes its bucket along wherever it goes, so this tells more than the CPU's own load where `per_cpu_windows`
//!    leaves that behind.
//! 3. `early_detection`: with an `ed_task` among the first ten of its queue a CPU counts as fully busy, before the window closes;
//!    `boosted`: only while schedtune boosts the CPU.
//! 4. `predicted_demand`: ten buckets per task, of which the lowest two are one. A closed window adds 8 to its bucket (16
//!    from 16 on) and takes 2 from the others. Predicted is the latest sample within the lowest bucket that is not empty,
//!    from that of the present window on, or the bucket's middle; never less than what the task has run in the window, and
//!    just that while it is younger than 100 ms.
//! 5. `walt.window_ms = display`: windows of 8 ms for a display of 90 Hz and more, of 16 ms for one of 50 Hz and more, else
//!    of 20 ms; at 250 Hz only, where these are whole ticks.
//! 6. `schedutil.generation = 4.9-qti` uses `nl` and `pl`, and decides once per window and when a task changes its cluster.
//!
//! Worked example: windows of 10 ms. A task of 110 ms of age closes windows of 2 ms, 2 ms, 6 ms: bucket 2 holds 8 + 8 − 2 =
//! 14, bucket 6 holds 8. When its next window begins, bucket 0 and 1 are empty, so 2 is the lowest: predicted are 2 ms. Once
//! it has run 3 ms, bucket 3 to 5 are empty: predicted are 6 ms. Had it closed 2 ms three times, bucket 2 would hold 8 + 8 +
//! 16 − 2 = 30.
//!
//! # State and cost
//! 13 words per task and two per task and CPU; two tables of 1000 counters per CPU. Nothing of it exists while all switches
//! are off.
//!
//! # Where it fails
//! A prediction from ten buckets forgets slowly: a task that has changed for good is predicted as it was for tens of windows.
//!
//! # Differences from the kernel
//! FIDELITY(walt-qti-windows): what a task leaves behind on other CPUs of a cluster is subtracted at once when it leaves the cluster, not
//! when their windows roll. Each window of several that close together is a hit of its own. When a window closes, the kernel predicts
//! from that window's bucket on, before it counts there; here it is from the new window's on, afterwards.
//! FIDELITY(walt-qti-roll): the kernel interrupts all CPUs when the first of them closes a window, and asks every governor; here each asks
//! at the first event of its own CPUs in the new window, so that a cluster that is idle keeps its clock until something wakes up there.
//! FIDELITY(walt-qti-missing): coming out of idle counts as demand as with the mainline part; work is scaled by the capacity at the present
//! frequency, not by a cycle counter and an efficiency per cluster; the display's rate is what the workload draws for and does not change
//! during a run; rotation of big tasks and colocation are missing.
//!
//! # Source
//! Public kernels of Snapdragon phones (4.14, 4.19), `kernel/sched/walt.c`.

use super::walt::{HISTORY, Walt, WaltRq, WaltTask};
use crate::registry::Tunable;
use wattif_model::{CpuId, Ns, Pid};

const fn switch(name: &'static str, doc: &'static str) -> Tunable {
    Tunable { name, default: "false", allowed: &["true", "false"], doc }
}

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[
    switch("per_cpu_windows", "a task that moves within its cluster leaves its busy time behind"),
    switch("top_tasks", "a CPU is at least as busy as its heaviest task was in the last window"),
    Tunable {
        name: "early_detection",
        default: "off",
        allowed: &["off", "boosted", "on"],
        doc: "a task that has not slept for 9.5 ms makes its CPU fully busy; boosted: while schedtune boosts it",
    },
    switch("predicted_demand", "the governor 4.9-qti may use what tasks are predicted to need"),
    switch("new_task_load", "the governor 4.9-qti looks at how much of the load is of new tasks"),
];

/// Buckets of top tasks.
const NR_LOAD_BUCKETS: usize = 1000;
/// Buckets of a task's closed windows.
const NUM_BUSY_BUCKETS: usize = 10;
/// What a closed window adds to its bucket.
const INC_STEP: u8 = 8;
/// From here on it adds more.
const CONSISTENT_THRES: u8 = 16;
const INC_STEP_BIG: u8 = 16;
/// What it takes from the other buckets.
const DEC_STEP: u8 = 2;
/// `NEW_TASK_ACTIVE_TIME`.
const NEW_TASK_NS: u64 = 100_000_000;
/// `EARLY_DETECTION_DURATION`.
const EARLY_DETECTION_NS: u64 = 9_500_000;
/// Tasks of a queue that early detection looks at.
const EARLY_DETECTION_TASKS: usize = 10;

/// Only at this rate of the tick do windows follow the display.
pub const DISPLAY_HZ: u32 = 250;

/// Length of windows for a workload that draws for a display of this period; `None`: it draws nothing.
pub fn window_of_display_ms(period: Option<Ns>, hz: u32) -> u64 {
    match period {
        Some(period) if hz == DISPLAY_HZ && period <= Ns::from_us(11_112) => 8,
        Some(period) if hz == DISPLAY_HZ && period <= Ns::from_ms(20) => 16,
        _ => 20,
    }
}

/// When a task that does not sleep makes its CPU fully busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detection {
    /// Never.
    #[default]
    Off,
    /// While schedtune boosts the CPU.
    Boosted,
    /// Always.
    On,
}

impl Detection {
    /// From the tunable's value.
    pub fn parse(name: &str) -> Option<Detection> {
        match name {
            "off" => Some(Detection::Off),
            "boosted" => Some(Detection::Boosted),
            "on" => Some(Detection::On),
            _ => None,
        }
    }
}

/// The switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Windows per CPU.
    pub per_cpu_windows: bool,
    /// Top tasks.
    pub top_tasks: bool,
    /// Early detection.
    pub early_detection: Detection,
    /// Predicted demand.
    pub predicted_demand: bool,
    /// Load of new tasks.
    pub new_task_load: bool,
    /// The governor `4.9-qti`, which asks for windows and moves.
    pub governor: bool,
}

/// How many tasks ran how much in a window, by bucket.
#[derive(Clone, Debug)]
struct TopTasks {
    counts: Vec<u16>,
    /// No bucket above is occupied.
    highest: usize,
}

impl TopTasks {
    fn new() -> TopTasks {
        TopTasks { counts: vec![0; NR_LOAD_BUCKETS], highest: 0 }
    }
    fn bucket(load: u64, window: u64) -> usize {
        ((load * NR_LOAD_BUCKETS as u64 / window) as usize).min(NR_LOAD_BUCKETS - 1)
    }
    fn add(&mut self, load: u64, window: u64) {
        if load > 0 {
            let at = TopTasks::bucket(load, window);
            self.counts[at] += 1;
            self.highest = self.highest.max(at);
        }
    }
    fn remove(&mut self, load: u64, window: u64) {
        if load > 0 {
            let at = TopTasks::bucket(load, window);
            self.counts[at] = self.counts[at].saturating_sub(1);
            while self.highest > 0 && self.counts[self.highest] == 0 {
                self.highest -= 1;
            }
        }
    }
    fn clear(&mut self) {
        self.counts.fill(0);
        self.highest = 0;
    }
    /// Upper edge of the highest occupied bucket, scaled ns.
    fn top(&self, window: u64) -> u64 {
        match self.counts[self.highest] {
            0 => 0,
            _ => (self.highest as u64 + 1) * window / NR_LOAD_BUCKETS as u64,
        }
    }
}

/// What is kept per CPU.
#[derive(Clone, Debug)]
struct QtiRq {
    cluster: u32,
    curr_top: TopTasks,
    prev_top: TopTasks,
    nt_curr: u64,
    nt_prev: u64,
    pred_demands_sum: u64,
    ed_task: Option<Pid>,
}

/// What is kept per task.
#[derive(Clone, Debug, Default)]
struct QtiTask {
    born: u64,
    /// It has been runnable or running since.
    last_wake_ts: u64,
    buckets: [u8; NUM_BUSY_BUCKETS],
    pred_demand: u64,
    /// By CPU: `curr_window` and `prev_window` there.
    windows: Vec<[u64; 2]>,
}

/// What the governor reads of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowLoad {
    /// Number of the present window.
    pub window: u64,
    /// Tasks that have changed their cluster, in all.
    pub moves: u64,
    /// Utilisation by new tasks in the last window, 0..=1024.
    pub nl: u64,
    /// Predicted utilisation of the queued tasks, 0..=1024.
    pub pl: u64,
}

/// The additions, by CPU and by pid.
#[derive(Clone, Debug)]
pub struct QtiSystem {
    /// The switches.
    pub switches: Switches,
    tasks: Vec<QtiTask>,
    rqs: Vec<QtiRq>,
    moves: u64,
    /// The fair tasks of a CPU, those at the head of `rq->cfs_tasks` first; for [`QtiSystem::detect`].
    pub queued: Vec<Pid>,
}

impl QtiSystem {
    /// Of a machine: the cluster of each CPU.
    pub fn new(switches: Switches, clusters: impl Iterator<Item = u32>) -> QtiSystem {
        let rq = |cluster| QtiRq {
            cluster,
            curr_top: TopTasks::new(),
            prev_top: TopTasks::new(),
            nt_curr: 0,
            nt_prev: 0,
            pred_demands_sum: 0,
            ed_task: None,
        };
        let tasks = vec![QtiTask::default()];
        QtiSystem { switches, tasks, rqs: clusters.map(rq).collect(), moves: 0, queued: Vec::new() }
    }

    /// Are these CPUs of different clusters?
    pub fn leaves_cluster(&self, src: CpuId, dst: CpuId) -> bool {
        self.rqs[src.at()].cluster != self.rqs[dst.at()].cluster
    }

    /// A thread was created.
    pub fn new_task(&mut self, now: u64) {
        let windows = vec![[0; 2]; if self.switches.per_cpu_windows { self.rqs.len() } else { 0 }];
        self.tasks.push(QtiTask { born: now, last_wake_ts: now, windows, ..QtiTask::default() });
    }

    /// A task wakes up.
    pub fn wake(&mut self, pid: Pid, now: u64) {
        self.tasks[pid.at()].last_wake_ts = now;
    }

    /// The CPU's window rolled on `windows` times.
    pub fn roll(&mut self, cpu: CpuId, windows: u64) {
        let rq = &mut self.rqs[cpu.at()];
        if windows == 0 {
            return;
        }
        std::mem::swap(&mut rq.curr_top, &mut rq.prev_top);
        rq.curr_top.clear();
        (rq.nt_prev, rq.nt_curr) = (rq.nt_curr, 0);
        if windows > 1 {
            rq.prev_top.clear();
            rq.nt_prev = 0;
        }
    }

    /// An event of a task was accounted on a CPU whose windows had been rolled before: from `before` to `after`.
    pub fn account(
        &mut self,
        w: &Walt,
        cpu: CpuId,
        pid: Pid,
        (before, after): (&WaltTask, &WaltTask),
        start: u64,
        now: u64,
    ) {
        if before.mark_start == 0 {
            return;
        }
        let window = w.window_ns;
        let new_window = before.mark_start < start;
        let gone = new_window && start - before.mark_start >= window;
        let (in_prev, in_curr) = match (new_window, gone) {
            (false, _) => (0, after.curr_window.saturating_sub(before.curr_window)),
            (true, false) => (after.prev_window.saturating_sub(before.curr_window), after.curr_window),
            (true, true) => (after.prev_window, after.curr_window),
        };
        let (t, rq) = (&mut self.tasks[pid.at()], &mut self.rqs[cpu.at()]);
        if self.switches.new_task_load && t.is_new(now) {
            rq.nt_prev += in_prev;
            rq.nt_curr += in_curr;
        }
        if self.switches.per_cpu_windows {
            if new_window {
                t.windows.iter_mut().for_each(|w| *w = [0, if gone { 0 } else { w[0] }]);
            }
            t.windows[cpu.at()][0] += in_curr;
            t.windows[cpu.at()][1] += in_prev;
        }
        if self.switches.top_tasks {
            match (new_window, gone) {
                (false, _) => rq.curr_top.remove(before.curr_window, window),
                (true, false) => rq.prev_top.remove(before.curr_window, window),
                (true, true) => {}
            }
            if new_window {
                rq.prev_top.add(after.prev_window, window);
            }
            rq.curr_top.add(after.curr_window, window);
        }
        if self.switches.predicted_demand {
            let closed = after.samples.wrapping_sub(before.samples).min(HISTORY as u32) as usize;
            let old = t.pred_demand;
            t.predict(after, closed, window, now);
            if after.queued {
                rq.pred_demands_sum = rq.pred_demands_sum.saturating_sub(old) + t.pred_demand;
            }
        }
    }

    /// Does a move take the recent busy time along? If so, what the task has left on the other CPUs of its old cluster is
    /// gathered on the one it leaves, where [`Walt::fixup_busy_time`] looks for it.
    pub fn migrate(&mut self, w: &Walt, p: &WaltTask, pid: Pid, [src, dst]: [CpuId; 2], rqs: &mut [WaltRq]) -> bool {
        let other_cluster = self.leaves_cluster(src, dst);
        self.moves += u64::from(other_cluster);
        if self.switches.top_tasks {
            self.rqs[src.at()].curr_top.remove(p.curr_window, w.window_ns);
            self.rqs[src.at()].prev_top.remove(p.prev_window, w.window_ns);
            self.rqs[dst.at()].curr_top.add(p.curr_window, w.window_ns);
            self.rqs[dst.at()].prev_top.add(p.prev_window, w.window_ns);
        }
        if self.switches.per_cpu_windows && !other_cluster {
            return false;
        }
        let t = &mut self.tasks[pid.at()];
        // Its last event was this move.
        if self.switches.new_task_load && t.is_new(p.mark_start) {
            let ran_at_src = [[p.curr_window, p.prev_window]];
            let ran = if t.windows.is_empty() { ran_at_src.iter().zip(src.at()..) } else { t.windows.iter().zip(0..) };
            for (ran, cpu) in ran {
                let rq = &mut self.rqs[cpu];
                rq.nt_curr = rq.nt_curr.saturating_sub(ran[0]);
                rq.nt_prev = rq.nt_prev.saturating_sub(ran[1]);
            }
            self.rqs[dst.at()].nt_curr += p.curr_window;
            self.rqs[dst.at()].nt_prev += p.prev_window;
        }
        for (cpu, left) in (0..).map(CpuId).zip(&mut t.windows) {
            if cpu != src {
                let rq = &mut rqs[cpu.at()];
                rq.curr_runnable_sum = rq.curr_runnable_sum.saturating_sub(left[0]);
                rq.prev_runnable_sum = rq.prev_runnable_sum.saturating_sub(left[1]);
                rqs[src.at()].curr_runnable_sum += left[0];
                rqs[src.at()].prev_runnable_sum += left[1];
            }
            *left = if cpu == dst { [p.curr_window, p.prev_window] } else { [0, 0] };
        }
        true
    }

    /// A task joins or leaves a queue.
    #[inline(never)]
    pub fn queue(&mut self, cpu: CpuId, pid: Pid, joins: bool) {
        let (rq, demand) = (&mut self.rqs[cpu.at()], self.tasks[pid.at()].pred_demand);
        let sum = rq.pred_demands_sum;
        rq.pred_demands_sum = if joins { sum + demand } else { sum.saturating_sub(demand) };
        if !joins {
            rq.ed_task = rq.ed_task.filter(|&ed_task| ed_task != pid);
        }
    }

    /// The tick looks at the first tasks of the queue, which are in `queued`.
    pub fn detect(&mut self, cpu: CpuId, now: u64) {
        let mut first = self.queued.iter().take(EARLY_DETECTION_TASKS);
        let early = |p: &&Pid| now.saturating_sub(self.tasks[p.at()].last_wake_ts) >= EARLY_DETECTION_NS;
        self.rqs[cpu.at()].ed_task = first.find(early).copied();
    }

    /// The governor's utilisation of a CPU, 0..=1024, from WALT's own.
    pub fn util(&self, w: &Walt, rq: &WaltRq, cpu: CpuId, util: u64, boosted: bool, now: u64) -> u64 {
        let x = &self.rqs[cpu.at()];
        let detects = match self.switches.early_detection {
            Detection::Off => false,
            Detection::Boosted => boosted,
            Detection::On => true,
        };
        if detects && x.ed_task.is_some() {
            return 1024;
        }
        let top = match w.elapsed(rq, now) {
            0 => x.prev_top.top(w.window_ns),
            1 => x.curr_top.top(w.window_ns),
            _ => 0,
        };
        util.max(top * 1024 / w.window_ns)
    }

    /// What the governor of this variant reads besides.
    pub fn window_load(&self, w: &Walt, rq: &WaltRq, cpu: CpuId, now: u64) -> WindowLoad {
        let x = &self.rqs[cpu.at()];
        let nl = match w.elapsed(rq, now) {
            0 => x.nt_prev,
            1 => x.nt_curr,
            _ => 0,
        };
        let util = |load: u64| (load * 1024 / w.window_ns).min(1024);
        WindowLoad { window: now / w.window_ns, moves: self.moves, nl: util(nl), pl: util(x.pred_demands_sum) }
    }
}

impl QtiTask {
    /// `is_new_task`: too young for its past to say anything.
    fn is_new(&self, now: u64) -> bool {
        now.saturating_sub(self.born) < NEW_TASK_NS
    }

    /// `closed` windows are the newest of the history; the present one may be longer than was predicted.
    fn predict(&mut self, p: &WaltTask, closed: usize, window: u64, now: u64) {
        for at in (0..closed).rev() {
            let hit = bucket_of(p.history[at], window);
            for (i, count) in self.buckets.iter_mut().enumerate() {
                *count = match i == hit {
                    true => count.saturating_add(if *count >= CONSISTENT_THRES { INC_STEP_BIG } else { INC_STEP }),
                    false => count.saturating_sub(DEC_STEP),
                };
            }
        }
        if closed > 0 || p.sum > self.pred_demand {
            self.pred_demand = if self.is_new(now) { p.sum } else { self.predicted(p, window).max(p.sum) };
        }
    }

    /// `get_pred_busy`.
    #[doc(alias = "get_pred_busy")]
    fn predicted(&self, p: &WaltTask, window: u64) -> u64 {
        let from = bucket_of(p.sum, window);
        let Some(at) = (from..NUM_BUSY_BUCKETS).find(|i| self.buckets[*i] > 0) else { return p.sum };
        let edge = |i: usize| i as u64 * window / NUM_BUSY_BUCKETS as u64;
        let lower = if at == 1 { 0 } else { edge(at) };
        let within = p.history.iter().find(|h| bucket_of(**h, window) == at);
        within.copied().unwrap_or((lower + edge(at + 1)) / 2)
    }
}

/// `busy_to_bucket`: the lowest two are one, bucket 1.
#[doc(alias = "busy_to_bucket")]
fn bucket_of(busy: u64, window: u64) -> usize {
    ((busy * NUM_BUSY_BUCKETS as u64 / window) as usize).clamp(1, NUM_BUSY_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::super::walt::{Event, Who};
    use super::*;

    const MS: u64 = 1_000_000;
    const P: Pid = Pid(1);

    /// A task on CPUs 0 and 1 of one cluster and 2 of another.
    struct Bench {
        walt: Walt,
        qti: QtiSystem,
        task: WaltTask,
        rqs: [WaltRq; 3],
    }

    impl Bench {
        fn new(switches: Switches) -> Bench {
            let walt = Walt::new(10, MS);
            let mut qti = QtiSystem::new(switches, [0, 0, 1].into_iter());
            qti.new_task(0);
            let mut bench = Bench { walt, qti, task: WaltTask::default(), rqs: Default::default() };
            bench.event(0, Event::TaskWake, 0);
            bench
        }
        fn event(&mut self, cpu: u32, event: Event, now: u64) {
            let (rq, before) = (&mut self.rqs[cpu as usize], self.task);
            let start = rq.window_start;
            let who = Who { current: event != Event::TaskWake, ..Who::default() };
            self.walt.update(&mut self.task, rq, who, event, now, 1024);
            self.qti.roll(CpuId(cpu), (rq.window_start - start) / self.walt.window_ns);
            self.qti.account(&self.walt, CpuId(cpu), P, (&before, &self.task), rq.window_start, now);
        }
        fn run(&mut self, cpu: u32, from: u64, to: u64) {
            self.event(cpu, Event::TaskWake, from);
            self.event(cpu, Event::PutPrevTask, to);
        }
        fn util(&self, cpu: usize, now: u64) -> u64 {
            let util = self.walt.cpu_util_freq(&self.rqs[cpu], now);
            self.qti.util(&self.walt, &self.rqs[cpu], CpuId(cpu as u32), util, false, now)
        }
    }

    #[test]
    fn windows_follow_the_display_where_they_are_whole_ticks() {
        let at = |fps: u64, hz| window_of_display_ms(Some(Ns(1_000_000_000 / fps)), hz);
        assert_eq!([120, 90, 60, 50, 30].map(|fps| at(fps, 250)), [8, 8, 16, 16, 20]);
        assert_eq!((at(120, 300), at(120, 100), window_of_display_ms(None, 250)), (20, 20, 20));
    }

    #[test]
    fn worked_example() {
        let mut b = Bench::new(Switches { predicted_demand: true, ..Switches::default() });
        for (window, ms) in [(11, 2), (12, 2), (13, 6)] {
            b.run(0, window * 10 * MS, (window * 10 + ms) * MS);
        }
        b.event(0, Event::TaskWake, 140 * MS);
        assert_eq!((b.qti.tasks[1].buckets[2], b.qti.tasks[1].buckets[6]), (8 + 8 - 2, 8));
        assert_eq!(b.qti.tasks[1].pred_demand, 2 * MS);
        b.event(0, Event::PutPrevTask, 143 * MS);
        assert_eq!(b.qti.tasks[1].pred_demand, 6 * MS);
        b.qti.queue(CpuId(0), P, true);
        assert_eq!(b.qti.window_load(&b.walt, &b.rqs[0], CpuId(0), 143 * MS).pl, 614);
    }

    /// Closes windows of these lengths, µs, from the window `first` on; what is predicted when the next begins.
    fn closes(b: &mut Bench, first: u64, us: &[u64]) -> u64 {
        for (window, us) in (first..).zip(us) {
            b.run(0, window * 10 * MS, window * 10 * MS + us * 1000);
        }
        b.event(0, Event::TaskWake, (first + us.len() as u64) * 10 * MS);
        b.qti.tasks[1].pred_demand
    }

    #[test]
    fn consistent_windows_count_double() {
        let mut b = Bench::new(Switches { predicted_demand: true, ..Switches::default() });
        closes(&mut b, 11, &[2000, 2000, 2000, 6000]);
        assert_eq!((b.qti.tasks[1].buckets[2], b.qti.tasks[1].buckets[6]), (8 + 8 + 16 - 2, 8));
    }

    #[test]
    fn the_lowest_two_buckets_are_one() {
        let mut b = Bench::new(Switches { predicted_demand: true, ..Switches::default() });
        assert_eq!(closes(&mut b, 11, &[500, 1500, 6000]), 1_500_000, "the latest below 2 ms");
        assert_eq!(b.qti.tasks[1].buckets[..3], [0, 8 + 8 - 2, 0]);
        // Five windows later no sample is in it: its middle.
        assert_eq!(closes(&mut b, 14, &[6000; 5]), MS);
    }

    #[test]
    fn nothing_is_predicted_of_new_tasks() {
        let mut b = Bench::new(Switches { predicted_demand: true, ..Switches::default() });
        assert_eq!(closes(&mut b, 1, &[2000, 2000]), 0);
        assert_eq!(b.qti.tasks[1].buckets[2], 16, "what it did counts later");
        assert_eq!(closes(&mut b, 11, &[2000]), 2 * MS);
    }

    #[test]
    fn the_heaviest_task_of_a_window() {
        let mut b = Bench::new(Switches { top_tasks: true, ..Switches::default() });
        b.run(0, 11 * MS, 15 * MS);
        assert_eq!(b.util(0, 19 * MS), 0, "the window is open");
        assert_eq!(b.util(0, 21 * MS), 410, "4 ms, to the upper edge of the bucket");
        assert_eq!(b.util(0, 31 * MS), 0);
        // It takes its bucket along.
        b.event(0, Event::TaskWake, 21 * MS);
        b.rqs[1].window_start = 20 * MS;
        assert!(b.qti.migrate(&b.walt, &b.task, P, [CpuId(0), CpuId(1)], &mut b.rqs));
        assert_eq!((b.qti.rqs[0].prev_top.top(10 * MS), b.util(1, 21 * MS)), (0, 410));
    }

    #[test]
    fn busy_time_stays_within_a_cluster_and_leaves_it_as_a_whole() {
        let mut b = Bench::new(Switches { per_cpu_windows: true, ..Switches::default() });
        b.run(0, 11 * MS, 13 * MS);
        assert!(!b.qti.migrate(&b.walt, &b.task, P, [CpuId(0), CpuId(1)], &mut b.rqs));
        b.rqs[1].window_start = 10 * MS;
        b.run(1, 14 * MS, 17 * MS);
        assert_eq!(b.task.curr_window, 5 * MS);
        let busy = |b: &Bench| [0, 1].map(|cpu: usize| b.rqs[cpu].curr_runnable_sum);
        assert_eq!(busy(&b), [2 * MS, 3 * MS]);
        assert!(b.qti.migrate(&b.walt, &b.task, P, [CpuId(1), CpuId(2)], &mut b.rqs));
        assert_eq!(busy(&b), [0, 5 * MS]);
        let [_, src, dst] = &mut b.rqs;
        b.walt.fixup_busy_time(&b.task, src, dst, false);
        assert_eq!((src.curr_runnable_sum, dst.curr_runnable_sum), (0, 5 * MS));
        assert_eq!((b.qti.tasks[1].windows[2], b.qti.moves), ([5 * MS, 0], 1));
    }

    #[test]
    fn what_a_new_task_ran_moves_with_it() {
        for (per_cpu_windows, dst, left) in [(false, 1, 0), (true, 1, 512), (true, 2, 0)] {
            let mut b = Bench::new(Switches { new_task_load: true, per_cpu_windows, ..Switches::default() });
            b.run(0, 11 * MS, 16 * MS);
            b.event(0, Event::TaskWake, 21 * MS);
            b.rqs[dst].window_start = 20 * MS;
            b.qti.migrate(&b.walt, &b.task, P, [CpuId(0), CpuId(dst as u32)], &mut b.rqs);
            let nl = |cpu: usize| b.qti.window_load(&b.walt, &b.rqs[cpu], CpuId(cpu as u32), 22 * MS).nl;
            assert_eq!((nl(0), nl(dst)), (left, 512 - left), "{per_cpu_windows} {dst}");
        }
    }

    #[test]
    fn new_tasks_and_those_that_do_not_sleep() {
        let switches = Switches { new_task_load: true, early_detection: Detection::On, ..Switches::default() };
        let mut b = Bench::new(switches);
        b.run(0, 11 * MS, 16 * MS);
        assert_eq!(b.qti.window_load(&b.walt, &b.rqs[0], CpuId(0), 21 * MS).nl, 512);
        b.run(0, 111 * MS, 116 * MS);
        assert_eq!(b.qti.window_load(&b.walt, &b.rqs[0], CpuId(0), 121 * MS).nl, 0, "it is 100 ms old");
        b.qti.wake(P, 121 * MS);
        b.qti.queued.push(P);
        b.qti.detect(CpuId(0), 130 * MS);
        assert_eq!(b.util(0, 141 * MS), 0);
        b.qti.detect(CpuId(0), 131 * MS);
        assert_eq!(b.util(0, 141 * MS), 1024);
        b.qti.queue(CpuId(0), P, false);
        assert_eq!(b.util(0, 141 * MS), 0, "no tick has to come before a task that left is forgotten");
    }
}
