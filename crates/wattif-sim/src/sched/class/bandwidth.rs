//! CFS bandwidth: a group may run for `quota` per `period`, on all CPUs together (`cpu.max`).
//!
//! # Idea
//! A group has a pool of run time that a timer refills every period. The group's queue on each CPU draws slices of 5 ms from
//! the pool and uses them up as its tasks run; when the pool is empty, the queue is *throttled*: it is taken off the hierarchy
//! with everything below it, until the timer has refilled the pool.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `delta_exec` | ns | run time of the entity that runs on a limited queue | `update_curr`: ticks, wake-ups, switches |
//! | `quota`, `period`, `burst` | ns | `cpu.max`, `cpu.max.burst` | never |
//!
//! # Decision
//! 1. Accounting takes run time off the queue's `runtime_remaining`. At 0 or below, the queue draws up to a slice from the
//!    pool; when it gets nothing, the CPU reschedules.
//! 2. At the next pick, or when the running entity is put back, a queue without run time is throttled: its group's entity is
//!    dequeued (and the parents' that are empty then), and the PELT clocks of all queues below stop.
//! 3. The period timer refills the pool to `quota`, and up to `quota + burst` with what was left, and gives throttled queues,
//!    in the order of their throttling, what they owe and 1 ns more; they join again. A group that did not run for a
//!    period stops its timer.
//!    Up to 5.3 (`slice_expires`) what a queue has left of a past period is void when it is accounted next.
//! 4. A queue whose last entity leaves gives all but 1 ms back. If more than a slice is in the pool then and others are
//!    throttled, a timer hands it on after 5 ms, unless the period ends within 2 ms (7 ms to start it).
//!
//! Worked example: quota 20 ms, period 100 ms, one hog, 4 ms ticks. It draws 5 ms at once, at the tick at 8 ms the 3 ms it
//! owes and 5 more, and the last 7 ms at 16 ms. At 20 ms they are used up and the pool is empty, which the tick there sees:
//! throttled until the period ends.
//!
//! # State and cost
//! A pool per limited group; six words per queue. O(1) per accounting; O(groups) per throttling.
//!
//! # Where it fails
//! Run time is only looked at when something happens: with ticks of 4 ms a group overruns by up to a tick on each CPU, and pays
//! for it in the next period. Slices that idle queues keep (1 ms each) let a group on many CPUs exceed its quota by as much;
//! where they expire, that much of its quota is lost to it instead, which throttles groups far below their quota.
//!
//! # Differences from the kernel
//! FIDELITY(bandwidth-vectors): by the kernel's rules, without vectors of it. FIDELITY(bandwidth-async): queues of other CPUs
//! join at once when the timer fires; since 6.4 the kernel lets each of those CPUs do it, an interrupt later.
//! FIDELITY(bandwidth-move): a thread that moves to a group that is throttled waits at once; up to 5.6 the kernel let it run until it slept.
//! FIDELITY(bandwidth-timer): the period timer runs on the CPU whose queue started it, not on the CPU of the waker.
//!
//! # Source
//! Linux 6.12 and 5.3 `kernel/sched/fair.c` (behaviour).

use super::fair::{self, Fair, Update, update_load_avg};
use super::{Dequeue, Enqueue};
use crate::sched::Sched;
use crate::sched::load::pelt::{self, At};
use crate::sched::rq::{CfsRq, Rq};
use crate::sched::task::NONE;
use wattif_model::{CpuId, Pid};

/// A queue gives none of its last run time back below this, ns.
const MIN_CFS_RQ_RUNTIME: i64 = 1_000_000;
/// Less of the period left than this, ns, and returned run time is not handed on.
const MIN_BANDWIDTH_EXPIRATION: u64 = 2_000_000;
/// How long returned run time is gathered, ns.
const CFS_BANDWIDTH_SLACK_PERIOD: u64 = 5_000_000;

/// `struct cfs_bandwidth` of a limited group.
#[derive(Clone, Debug, Default)]
pub struct CfsBandwidth {
    /// Run time per period, ns.
    pub quota: u64,
    /// Length of a period, ns.
    pub period: u64,
    /// Most that is saved beyond the quota, ns.
    pub burst: u64,
    /// What is left in the pool, ns.
    pub runtime: u64,
    /// What was in it after the last refill, ns.
    pub runtime_snap: u64,
    /// Refills so far (`expires_seq`).
    pub refills: u64,
    /// When the period timer fires, or fired last, ns.
    pub period_expires: u64,
    /// The period timer runs.
    pub period_active: bool,
    /// Nobody drew from the pool in this period.
    pub idle: bool,
    /// The slack timer runs.
    pub slack_started: bool,
    /// Throttled queues, the first throttled first.
    pub throttled_cfs_rq: Vec<usize>,
}

/// What the bandwidth of groups asks of `core`, or has to tell; looked at after every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The period timer of a group is to fire on a CPU at a time, ns.
    PeriodTimer(u32, CpuId, u64),
    /// The slack timer.
    SlackTimer(u32, CpuId, u64),
    /// A queue was throttled.
    Throttled(usize),
    /// A queue joined again after so many ns.
    Unthrottled(usize, u64),
    /// Periods of a group ended: how many, whether a queue was throttled, and run time beyond the quota that was used, ns.
    Period(u32, u32, bool, u64),
    /// The CPU has to reschedule.
    Resched(CpuId),
}

/// `cfs_rq->runtime_*` and `cfs_rq->throttle*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CfsRqRuntime {
    /// The group is limited.
    pub enabled: bool,
    /// The queue is off the hierarchy.
    pub throttled: bool,
    /// Run time drawn from the pool and not used yet, ns; negative: owed.
    pub remaining: i64,
    /// The pool's refills when the queue drew last (`expires_seq`).
    pub drew_after: u64,
    /// Throttled queues among this one and those above.
    pub throttle_count: u32,
    /// Since when tasks wait on a throttled queue, rq clock ns.
    pub throttled_clock: Option<u64>,
    /// The PELT clock when it stopped, ns.
    pub throttled_clock_pelt: u64,
    /// How long it stood still so far, ns.
    pub throttled_clock_pelt_time: u64,
    /// The same when the queue became empty; `None`: it stood still then.
    pub throttled_pelt_idle: Option<u64>,
}

/// `cfs_rq_clock_pelt`: the PELT clock of a queue, which stands still while it is throttled.
#[inline]
pub(super) fn cfs_rq_pelt_at(rq: &Rq, cfs: &CfsRq) -> At {
    let at = rq.pelt_at();
    if cfs.group == 0 {
        return at;
    }
    let now = if cfs.runtime.throttle_count != 0 { cfs.runtime.throttled_clock_pelt } else { at.now };
    At { now: now - cfs.runtime.throttled_clock_pelt_time, ..at }
}

/// Is the queue, or one above it, throttled?
#[inline]
pub fn throttled_hierarchy(s: &Sched, q: usize) -> bool {
    s.cfs[q].runtime.throttle_count != 0
}

fn pool(s: &mut Sched, q: usize) -> &mut CfsBandwidth {
    pool_of(s, s.cfs[q].group)
}

fn pool_of(s: &mut Sched, group: u32) -> &mut CfsBandwidth {
    s.groups[group as usize].bandwidth.as_mut().expect("a limited group has a pool")
}

impl CfsBandwidth {
    /// A full pool whose periods end at multiples of `period` after `offset`, ns.
    pub fn new(quota: u64, period: u64, burst: u64, offset: u64) -> CfsBandwidth {
        let mut pool = CfsBandwidth { quota, period, burst, period_expires: offset, ..CfsBandwidth::default() };
        pool.refill();
        pool
    }

    /// `__refill_cfs_bandwidth_runtime`: returns what was used beyond the quota, thanks to the burst.
    fn refill(&mut self) -> u64 {
        self.runtime += self.quota;
        let used_of_burst = self.runtime_snap.saturating_sub(self.runtime);
        self.runtime = self.runtime.min(self.quota + self.burst);
        self.runtime_snap = self.runtime;
        self.refills += 1;
        used_of_burst
    }

    /// The next end of a period after `now`; returns how many have ended.
    #[doc(alias = "hrtimer_forward_now")]
    fn forward(&mut self, now: u64) -> u64 {
        if self.period_expires > now {
            return 0;
        }
        let overrun = (now - self.period_expires) / self.period + 1;
        self.period_expires += overrun * self.period;
        overrun
    }

    /// The period ends before `min_expire` ns have passed.
    fn runtime_refresh_within(&self, now: u64, min_expire: u64) -> bool {
        self.period_expires < now + min_expire
    }
}

// ---- drawing and returning run time --------------------------------------------------------------------------------

/// The running entity of a limited queue used run time.
#[doc(alias = "__account_cfs_rq_runtime")]
#[inline(never)]
pub(super) fn account_cfs_rq_runtime(s: &mut Sched, q: usize, delta_exec: u64) {
    let expired = has_expired(s, q);
    let runtime = &mut s.cfs[q].runtime;
    runtime.remaining -= delta_exec as i64;
    if expired {
        runtime.remaining = runtime.remaining.min(0);
    }
    if runtime.remaining > 0 || runtime.throttled {
        return;
    }
    let slice = s.bandwidth_slice_ns;
    if !assign_cfs_rq_runtime(s, q, slice) && s.cfs[q].curr != NONE {
        let cpu = s.cfs[q].cpu;
        s.rqs[cpu.at()].need_resched = true;
        s.bandwidth_notes.push(Note::Resched(cpu));
    }
}

/// Is what the queue drew void, because the pool was refilled since (`expire_cfs_rq_runtime`)?
fn has_expired(s: &mut Sched, q: usize) -> bool {
    s.bandwidth_slices_expire && s.cfs[q].runtime.drew_after != pool(s, q).refills
}

/// Gives the queue so much of its pool, or what is left in it; how much.
fn draw(s: &mut Sched, q: usize, wanted: u64) -> u64 {
    let pool = pool(s, q);
    let amount = wanted.min(pool.runtime);
    pool.runtime -= amount;
    let refills = pool.refills;
    let runtime = &mut s.cfs[q].runtime;
    (runtime.remaining, runtime.drew_after) = (runtime.remaining + amount as i64, refills);
    amount
}

/// Draws what is owed and `target` more from the pool, or what is left in it. True if the queue may run then.
fn assign_cfs_rq_runtime(s: &mut Sched, q: usize, target: u64) -> bool {
    start_cfs_bandwidth(s, q);
    let min_amount = (target as i64 - s.cfs[q].runtime.remaining) as u64;
    if draw(s, q, min_amount) > 0 {
        pool(s, q).idle = false;
    }
    s.cfs[q].runtime.remaining > 0
}

/// The group runs: so does its period timer.
fn start_cfs_bandwidth(s: &mut Sched, q: usize) {
    let (now, cpu, group) = (s.now, s.cfs[q].cpu, s.cfs[q].group);
    let pool = pool(s, q);
    if pool.period_active {
        return;
    }
    pool.period_active = true;
    pool.forward(now);
    let at = pool.period_expires;
    s.bandwidth_notes.push(Note::PeriodTimer(group, cpu, at));
}

/// The queue has lost its last entity: all but a little of its run time goes back to the pool.
#[inline(never)]
pub(super) fn return_cfs_rq_runtime(s: &mut Sched, q: usize) {
    let slack = s.cfs[q].runtime.remaining - MIN_CFS_RQ_RUNTIME;
    if slack <= 0 {
        return;
    }
    let expired = has_expired(s, q);
    s.cfs[q].runtime.remaining -= slack;
    if expired {
        return;
    }
    let (now, cpu, group, slice) = (s.now, s.cfs[q].cpu, s.cfs[q].group, s.bandwidth_slice_ns);
    let pool = pool(s, q);
    pool.runtime += slack as u64;
    let wanted = pool.runtime > slice && !pool.throttled_cfs_rq.is_empty() && !pool.slack_started;
    if wanted && !pool.runtime_refresh_within(now, CFS_BANDWIDTH_SLACK_PERIOD + MIN_BANDWIDTH_EXPIRATION) {
        pool.slack_started = true;
        s.bandwidth_notes.push(Note::SlackTimer(group, cpu, now + CFS_BANDWIDTH_SLACK_PERIOD));
    }
}

// ---- throttling ----------------------------------------------------------------------------------------------------

/// An entity joined an empty limited queue, which may have nothing left.
#[inline(never)]
pub(super) fn check_enqueue_throttle<F: Fair + ?Sized>(f: &F, s: &mut Sched, q: usize) {
    let cfs = &s.cfs[q];
    // A queue that runs is looked at when its entity is put back.
    if cfs.curr != NONE || cfs.runtime.throttled {
        return;
    }
    account_cfs_rq_runtime(s, q, 0);
    if s.cfs[q].runtime.remaining <= 0 {
        throttle_cfs_rq(f, s, q);
    }
}

/// Tasks begin to wait on a queue that is throttled already.
#[inline(never)]
pub(super) fn note_waiting(s: &mut Sched, q: usize) {
    let (clock, runtime) = (s.rqs[s.cfs[q].cpu.at()].clock, &mut s.cfs[q].runtime);
    if runtime.throttled && runtime.throttled_clock.is_none() {
        runtime.throttled_clock = Some(clock);
    }
}

/// Throttles a queue that has used what it drew. True if it is throttled.
#[inline]
pub(super) fn check_cfs_rq_runtime<F: Fair + ?Sized>(f: &F, s: &mut Sched, q: usize) -> bool {
    let runtime = &s.cfs[q].runtime;
    if !runtime.enabled || runtime.remaining > 0 {
        return false;
    }
    runtime.throttled || throttle_cfs_rq(f, s, q)
}

/// Takes a queue off the hierarchy, unless the pool has something after all.
#[inline(never)]
fn throttle_cfs_rq<F: Fair + ?Sized>(f: &F, s: &mut Sched, q: usize) -> bool {
    if assign_cfs_rq_runtime(s, q, 1) {
        return false;
    }
    pool(s, q).throttled_cfs_rq.push(q);
    let (cpu, group) = (s.cfs[q].cpu, s.cfs[q].group);
    walk_tg_tree_from(s, group, cpu, tg_throttle_down);
    leave_hierarchy(f, s, q);
    s.cfs[q].runtime.throttled = true;
    if s.cfs[q].nr_queued > 0 {
        note_waiting(s, q);
    }
    s.bandwidth_notes.push(Note::Throttled(q));
    true
}

/// A group's queue on a CPU and those of all groups below it.
fn walk_tg_tree_from(s: &mut Sched, top: u32, cpu: CpuId, visit: fn(&mut Sched, usize)) {
    for group in top..s.groups.len() as u32 {
        let mut up = group;
        while up > top {
            up = s.groups[up as usize].parent;
        }
        if up == top {
            visit(s, s.cfs_of(group, cpu));
        }
    }
}

/// The clock of a queue stops.
fn tg_throttle_down(s: &mut Sched, q: usize) {
    let now = s.rqs[s.cfs[q].cpu.at()].pelt_at().now;
    let runtime = &mut s.cfs[q].runtime;
    if runtime.throttle_count == 0 {
        runtime.throttled_clock_pelt = now;
    }
    runtime.throttle_count += 1;
}

/// It goes on.
fn tg_unthrottle_up(s: &mut Sched, q: usize) {
    let now = s.rqs[s.cfs[q].cpu.at()].pelt_at().now;
    let runtime = &mut s.cfs[q].runtime;
    runtime.throttle_count -= 1;
    if runtime.throttle_count == 0 {
        runtime.throttled_clock_pelt_time += now - runtime.throttled_clock_pelt;
    }
}

/// The tasks below a queue, as the queues above count them.
struct Below {
    queued: u32,
    delayed: u32,
    idle: u32,
}

impl Below {
    fn of(cfs: &CfsRq) -> Below {
        Below { queued: cfs.h_nr_running, delayed: cfs.h_nr_delayed, idle: cfs.idle_h_nr_running }
    }
    /// Seen from above the group of `q`, all its tasks are idle ones if it is.
    fn seen_from_above(&mut self, s: &Sched, q: usize) {
        if s.groups[s.cfs[q].group as usize].idle {
            self.idle = self.queued;
        }
    }
}

fn leave_hierarchy<F: Fair + ?Sized>(f: &F, s: &mut Sched, q: usize) {
    let mut below = Below::of(&s.cfs[q]);
    let (cpu, mut i, mut counting_only) = (s.cfs[q].cpu, s.cfs[q].se, false);
    s.signal_versions[cpu.at()] += 1;
    while i != NONE {
        let above = s.se[i].cfs_rq;
        if !s.se[i].on_rq {
            return;
        }
        if counting_only {
            update_load_avg(s, above, i, Update::NONE);
            fair::se_update_runnable(s, i);
        } else {
            let delayed = s.se[i].sched_delayed;
            f.dequeue_entity(s, above, i, Dequeue { sleep: true, special: true, delayed, ..Dequeue::default() });
        }
        below.seen_from_above(s, s.se[i].my_q);
        let cfs = &mut s.cfs[above];
        cfs.h_nr_running -= below.queued;
        cfs.h_nr_delayed -= below.delayed;
        cfs.idle_h_nr_running -= below.idle;
        counting_only |= cfs.load_weight != 0;
        i = s.se[i].parent;
    }
    s.rqs[cpu.at()].nr_running -= below.queued;
}

fn join_hierarchy<F: Fair + ?Sized>(f: &F, s: &mut Sched, q: usize) {
    let mut below = Below::of(&s.cfs[q]);
    let (cpu, mut i, mut counting_only) = (s.cfs[q].cpu, s.cfs[q].se, false);
    while i != NONE {
        let above = s.se[i].cfs_rq;
        if !counting_only && s.se[i].sched_delayed {
            f.dequeue_entity(s, above, i, Dequeue { sleep: true, delayed: true, ..Dequeue::default() });
        }
        counting_only |= s.se[i].on_rq;
        if counting_only {
            update_load_avg(s, above, i, Update::TG);
            fair::se_update_runnable(s, i);
        } else {
            f.enqueue_entity(s, above, i, Enqueue { wakeup: true, ..Enqueue::default() });
        }
        below.seen_from_above(s, s.se[i].my_q);
        let cfs = &mut s.cfs[above];
        cfs.h_nr_running += below.queued;
        cfs.h_nr_delayed += below.delayed;
        cfs.idle_h_nr_running += below.idle;
        if cfs.runtime.throttled {
            return;
        }
        i = s.se[i].parent;
    }
    let rq = &mut s.rqs[cpu.at()];
    rq.nr_running += below.queued;
    s.rd.overloaded |= rq.nr_running >= 2;
}

/// A queue has run time again.
fn unthrottle_cfs_rq<F: Fair + ?Sized>(f: &F, s: &mut Sched, q: usize) {
    let (cpu, group) = (s.cfs[q].cpu, s.cfs[q].group);
    s.signal_versions[cpu.at()] += 1;
    s.mark_touched(cpu);
    pelt::update_rq_clock(&mut s.rqs[cpu.at()], s.now);
    s.cfs[q].runtime.throttled = false;
    let waited = s.cfs[q].runtime.throttled_clock.take().map_or(0, |since| s.rqs[cpu.at()].clock - since);
    pool(s, q).throttled_cfs_rq.retain(|&other| other != q);
    walk_tg_tree_from(s, group, cpu, tg_unthrottle_up);
    s.bandwidth_notes.push(Note::Unthrottled(q, waited));
    if s.cfs[q].load_weight != 0 {
        join_hierarchy(f, s, q);
    }
    if s.rqs[cpu.at()].curr == Pid(0) && s.cfs[cpu.at()].nr_queued > 0 {
        s.rqs[cpu.at()].need_resched = true;
        s.bandwidth_notes.push(Note::Resched(cpu));
    }
}

// ---- the timers ----------------------------------------------------------------------------------------------------

/// The period timer of a group fired on a CPU.
pub(super) fn sched_cfs_period_timer<F: Fair + ?Sized>(f: &F, s: &mut Sched, group: u32, cpu: CpuId) {
    let now = s.now;
    let overrun = pool_of(s, group).forward(now);
    let throttled = !pool_of(s, group).throttled_cfs_rq.is_empty();
    let burst = pool_of(s, group).refill();
    s.bandwidth_notes.push(Note::Period(group, overrun as u32, throttled, burst));
    let pool = pool_of(s, group);
    if pool.idle && !throttled {
        pool.period_active = false;
        return;
    }
    // Whoever draws from the pool takes this back.
    pool.idle = !throttled;
    let at = pool.period_expires;
    s.bandwidth_notes.push(Note::PeriodTimer(group, cpu, at));
    if throttled {
        distribute_cfs_runtime(f, s, group);
        pool_of(s, group).idle = false;
    }
}

/// The slack timer of a group fired.
pub(super) fn sched_cfs_slack_timer<F: Fair + ?Sized>(f: &F, s: &mut Sched, group: u32) {
    let (now, slice) = (s.now, s.bandwidth_slice_ns);
    let pool = pool_of(s, group);
    pool.slack_started = false;
    if !pool.runtime_refresh_within(now, MIN_BANDWIDTH_EXPIRATION) && pool.runtime > slice {
        distribute_cfs_runtime(f, s, group);
    }
}

/// Gives throttled queues what they owe and 1 ns more, as long as the pool lasts.
fn distribute_cfs_runtime<F: Fair + ?Sized>(f: &F, s: &mut Sched, group: u32) {
    // A queue that joins can be throttled again at once; it is then at the end of the list and is not looked at twice.
    for _ in 0..pool_of(s, group).throttled_cfs_rq.len() {
        let Some(q) = pool_of(s, group).throttled_cfs_rq.first().copied() else { return };
        let owed = (1 - s.cfs[q].runtime.remaining) as u64;
        draw(s, q, owed);
        let empty = pool_of(s, group).runtime == 0;
        if s.cfs[q].runtime.remaining > 0 {
            unthrottle_cfs_rq(f, s, q);
        }
        if empty {
            return;
        }
    }
}
