//! The class alone on one or two CPUs: rules of the constant-bandwidth server, and the two promises of the class as properties.

use super::super::dl_placement::{pull_dl_task, push_dl_task, select_task_rq};
use super::super::rt::{Push, RtBandwidth};
use super::*;
use crate::sched::class::dl_bandwidth::{BW_UNIT, Reclaim, admit, grub_reclaim, sched_dl_overflow, to_ratio};
use crate::sched::class::fair::tests::spawn;
use crate::sched::placement::{Kind, Request};
use proptest::prelude::*;
use wattif_model::CpuSet;
use wattif_model::workload::Policy;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
const CPU: CpuId = CpuId(0);
const DL: Deadline = Deadline { reclaim: None };

fn wakeup() -> Enqueue {
    Enqueue { wakeup: true, ..Enqueue::default() }
}

fn sleep() -> Dequeue {
    Dequeue { sleep: true, ..Dequeue::default() }
}

/// A task of the class that sleeps.
fn sleeper(s: &mut Sched, runtime: u64, deadline: u64, period: u64) -> Pid {
    let pid = spawn(s, 0);
    let task = &mut s.tasks[pid.at()];
    (task.policy, task.prio) = (Policy::Deadline, 0);
    (task.cpus, task.nr_cpus_allowed) = (CpuSet::first(s.rqs.len()), s.rqs.len() as u32);
    (task.dl.dl_runtime, task.dl.dl_deadline, task.dl.dl_period) = (runtime, deadline, period);
    (task.dl.dl_bw, task.dl.dl_density) = (to_ratio(period, runtime), to_ratio(deadline, runtime));
    dl_bandwidth::add_rq_bw(s, CPU, pid);
    admit(s, pid);
    pid
}

fn wake(s: &mut Sched, pid: Pid) {
    DL.enqueue_task(s, CPU, pid, wakeup());
    s.tasks[pid.at()].on_rq = OnRq::Queued;
    if s.rqs[0].curr != pid {
        DL.wakeup_preempt(s, CPU, pid, false);
    }
}

fn dl_task(s: &mut Sched, runtime: u64, period: u64) -> Pid {
    let pid = sleeper(s, runtime, period, period);
    wake(s, pid);
    pid
}

fn schedule(s: &mut Sched) -> Pid {
    let prev = s.rqs[0].curr;
    if prev != Pid(0) {
        DL.put_prev_task(s, CPU, prev);
    }
    let next = DL.pick_task(s, CPU);
    if let Some(next) = next {
        DL.set_next_task(s, CPU, next, true);
    }
    s.rqs[0].curr = next.unwrap_or_default();
    s.rqs[0].need_resched = false;
    s.rqs[0].curr
}

fn at(s: &mut Sched, now: u64) {
    s.now = now;
    pelt::update_rq_clock(&mut s.rqs[0], now);
}

// ---- rules -----------------------------------------------------------------------------------------------------------

/// A spinner alone under ticks of 1 ms, for `ms`; what it got.
fn spin(s: &mut Sched, class: Deadline, p: Pid, ms: u64) -> u64 {
    let began = s.now;
    let mut due = None;
    for tick in 1..=ms {
        at(s, began + tick * MS);
        if due.is_some_and(|d| d <= s.now) {
            due = None;
            assert!(dl_task_timer(s, CPU, p));
            class.wakeup_preempt(s, CPU, p, false);
        }
        if s.rqs[0].curr != Pid(0) {
            class.task_tick(s, CPU, p);
        }
        for request in std::mem::take(&mut s.hrtimers) {
            assert_eq!(request.timer, Hrtimer::Replenish(p));
            due = request.at;
        }
        if s.rqs[0].need_resched {
            schedule(s);
        }
    }
    s.tasks[p.at()].dl.sum_exec_runtime
}

#[test]
fn a_spinner_gets_its_budget_in_every_period() {
    let mut s = Sched::bare(1, MS);
    at(&mut s, 100 * MS);
    let p = dl_task(&mut s, 2 * MS, 10 * MS);
    assert_eq!(schedule(&mut s), p);
    assert_eq!(spin(&mut s, DL, p, 100), 20 * MS);
    assert_eq!((s.rqs[0].nr_running, s.rqs[0].dl.dl_nr_running), (1, 1));
}

#[test]
fn a_budget_is_wall_time_until_4_15() {
    for (generation, expect) in [(Generation::V4_10, 20), (Generation::V6_1, 40)] {
        let mut s = Sched::bare(1, MS);
        (s.dl_generation, s.rqs[0].freq_cap) = (generation, 512);
        at(&mut s, 100 * MS);
        let p = dl_task(&mut s, 2 * MS, 10 * MS);
        schedule(&mut s);
        assert_eq!(spin(&mut s, DL, p, 100), expect * MS, "{generation:?}");
    }
}

/// One of 2 ms in 5, every 20, runs since 100 ms.
fn constrained(generation: Generation) -> (Sched, Pid) {
    let mut s = Sched::bare(1, MS);
    s.dl_generation = generation;
    at(&mut s, 100 * MS);
    let p = sleeper(&mut s, 2 * MS, 5 * MS, 20 * MS);
    wake(&mut s, p);
    schedule(&mut s);
    (s, p)
}

#[test]
fn a_used_up_budget_is_renewed_at_the_deadline_until_4_11() {
    for (generation, expect) in [(Generation::V4_10, 105), (Generation::V6_1, 120)] {
        let (mut s, p) = constrained(generation);
        s.hrtimers.clear();
        at(&mut s, 102 * MS);
        DL.task_tick(&mut s, CPU, p);
        assert_eq!(s.hrtimers.iter().find(|r| r.timer == Hrtimer::Replenish(p)).unwrap().at, Some(expect * MS));
    }
}

#[test]
fn the_earlier_deadline_preempts() {
    let mut s = Sched::bare(1, MS);
    at(&mut s, 100 * MS);
    let slow = dl_task(&mut s, 5 * MS, 20 * MS);
    assert_eq!(schedule(&mut s), slow);
    let fast = dl_task(&mut s, MS, 5 * MS);
    assert!(s.rqs[0].need_resched);
    assert_eq!(schedule(&mut s), fast);
    // Equal deadlines do not preempt, and the first come is picked first.
    let second = dl_task(&mut s, MS, 5 * MS);
    assert!(!s.rqs[0].need_resched);
    DL.dequeue_task(&mut s, CPU, fast, sleep());
    s.tasks[fast.at()].on_rq = OnRq::No;
    s.rqs[0].curr = Pid(0);
    assert_eq!(schedule(&mut s), second);
}

#[test]
fn yield_gives_up_the_budget_until_the_next_period() {
    let mut s = Sched::bare(1, MS);
    at(&mut s, 100 * MS);
    let p = dl_task(&mut s, 5 * MS, 20 * MS);
    schedule(&mut s);
    at(&mut s, 101 * MS);
    DL.yield_task(&mut s, CPU);
    assert_eq!(schedule(&mut s), Pid(0));
    assert_eq!(s.hrtimers.last().unwrap().at, Some(120 * MS));
    at(&mut s, 120 * MS);
    assert!(dl_task_timer(&mut s, CPU, p));
    assert_eq!((s.tasks[p.at()].dl.deadline, s.tasks[p.at()].dl.runtime), (140 * MS, 5 * MS as i64));
}

#[test]
fn wake_up_rules() {
    let own = DlEntity {
        dl_runtime: 2 * MS,
        dl_deadline: 10 * MS,
        dl_period: 10 * MS,
        dl_density: to_ratio(10, 2),
        ..DlEntity::default()
    };
    #[track_caller]
    fn check(mut dl: DlEntity, runtime: u64, deadline: u64, now: u64, expect: (u64, u64)) {
        (dl.runtime, dl.deadline) = (runtime as i64, deadline);
        let params = dl.params();
        update_dl_entity(&mut dl, params, now, Generation::default());
        assert_eq!((dl.runtime, dl.deadline), (expect.0 as i64, expect.1));
    }
    check(own, 0, 0, 100 * MS, (2 * MS, 110 * MS)); // the first time
    check(own, MS, 110 * MS, 104 * MS, (MS, 110 * MS)); // 1 ms of 6 fits 2 of 10
    check(own, MS, 110 * MS, 107 * MS, (2 * MS, 117 * MS)); // 1 ms of 3 does not
    check(own, MS, 110 * MS, 111 * MS, (2 * MS, 121 * MS)); // too late
    // With the deadline before the end of the period, the budget is cut to what fits: 2/10 of 3 ms.
    let constrained = DlEntity { dl_period: 40 * MS, ..own };
    let cut = (3 * MS * to_ratio(10, 2)) >> 20;
    check(constrained, MS, 110 * MS, 107 * MS, (cut, 110 * MS));
    check(constrained, MS / 2, 110 * MS, 107 * MS, (MS / 2, 110 * MS)); // 0.5 ms of 3 fits 2 of 10
    // In 4.10 it may not, as it does not fit 2 of 40, and all of it is renewed.
    for runtime in [MS / 2, MS] {
        let mut dl = DlEntity { runtime: runtime as i64, deadline: 110 * MS, ..constrained };
        update_dl_entity(&mut dl, constrained.params(), 107 * MS, Generation::V4_10);
        assert_eq!((dl.runtime, dl.deadline), (2 * MS as i64, 117 * MS));
    }
}

#[test]
fn who_comes_between_deadline_and_next_period_waits_since_4_12() {
    let comes = |generation| {
        let (mut s, p) = constrained(generation);
        at(&mut s, 101 * MS);
        DL.dequeue_task(&mut s, CPU, p, sleep());
        (s.tasks[p.at()].on_rq, s.rqs[0].curr) = (OnRq::No, Pid(0));
        at(&mut s, 110 * MS);
        s.hrtimers.clear();
        wake(&mut s, p);
        (s, p)
    };
    let (mut s, p) = comes(Generation::V4_10);
    assert_eq!((schedule(&mut s), s.tasks[p.at()].dl.deadline), (p, 115 * MS));
    let (mut s, p) = comes(Generation::V6_1);
    assert_eq!(schedule(&mut s), Pid(0));
    assert_eq!(s.hrtimers.iter().find(|r| r.timer == Hrtimer::Replenish(p)).unwrap().at, Some(120 * MS));
    at(&mut s, 120 * MS);
    dl_task_timer(&mut s, CPU, p);
    assert_eq!(schedule(&mut s), p);
    assert_eq!(s.tasks[p.at()].dl.deadline, 125 * MS);
}

#[test]
fn until_4_18_fair_tasks_lose_what_a_deadline_task_runs_under_androids_4_9_what_it_is_admitted_to() {
    use crate::sched::load::rt_avg::Generation;
    for (generation, taken) in [(Generation::V4_1, 1024 * 50 / 650), (Generation::V4_9, 1024 * 60 / 100)] {
        let mut s = Sched::bare(1, MS);
        s.rqs[0].rt_avg.generation = generation;
        at(&mut s, 100 * MS);
        dl_task(&mut s, 60 * MS, 100 * MS);
        schedule(&mut s);
        at(&mut s, 150 * MS);
        DL.update_curr(&mut s, CPU);
        assert_eq!(s.rqs[0].rt_avg_leaves(), Some(1024 - taken), "{generation:?}");
    }
}

#[test]
fn bandwidth_is_active_until_the_zero_lag_time() {
    let mut s = Sched::bare(1, MS);
    at(&mut s, 100 * MS);
    let p = dl_task(&mut s, 2 * MS, 10 * MS);
    let bw = s.tasks[p.at()].dl.dl_bw;
    assert_eq!((s.rqs[0].dl.this_bw, s.rqs[0].dl.running_bw), (bw, bw));
    schedule(&mut s);
    at(&mut s, 101 * MS);
    s.hrtimers.clear();
    assert!(std::mem::take(&mut s.rqs[0].util_changed));
    DL.task_tick(&mut s, CPU, p);
    DL.dequeue_task(&mut s, CPU, p, sleep());
    (s.tasks[p.at()].on_rq, s.rqs[0].curr) = (OnRq::No, Pid(0));
    assert!(!s.rqs[0].util_changed, "nothing to tell the frequency governor");
    // 1 ms of budget is left, which is worth 5 ms of the period: active until 5 ms before the deadline.
    assert_eq!(s.hrtimers[0].at, Some(105 * MS));
    assert_eq!(s.rqs[0].dl.running_bw, bw);
    at(&mut s, 103 * MS);
    wake(&mut s, p);
    assert_eq!(s.rqs[0].dl.running_bw, bw, "still active: not counted twice");
    DL.dequeue_task(&mut s, CPU, p, sleep());
    s.tasks[p.at()].on_rq = OnRq::No;
    at(&mut s, 105 * MS);
    dl_bandwidth::inactive_task_timer(&mut s, CPU, p);
    assert_eq!((s.rqs[0].dl.this_bw, s.rqs[0].dl.running_bw), (bw, 0));
    assert!(s.rqs[0].util_changed);
    at(&mut s, 130 * MS);
    wake(&mut s, p);
    assert_eq!(s.rqs[0].dl.running_bw, bw);
}

#[test]
fn admission_counts_what_is_there_and_gives_back_what_ends() {
    let mut s = Sched::bare(2, MS);
    s.rd.dl_bw = Some(RtBandwidth { runtime_ns: 950 * MS, period_ns: 1000 * MS });
    let half = BW_UNIT / 2;
    let [_, _, two] = [(); 3].map(|()| sleeper(&mut s, MS, 2 * MS, 2 * MS));
    let newcomer = spawn(&mut s, 0);
    s.tasks[newcomer.at()].cpus = CpuSet::first(2);
    // 1.5 of 1.9 CPUs are taken.
    assert_eq!(sched_dl_overflow(&s, newcomer, BW_UNIT * 41 / 100), Err((3 * half, 1_992_294)));
    assert_eq!(sched_dl_overflow(&s, newcomer, BW_UNIT * 3 / 8), Ok(()));
    // It ends long after its zero-lag time.
    at(&mut s, 500 * MS);
    wake(&mut s, two);
    at(&mut s, 900 * MS);
    s.tasks[two.at()].state = crate::sched::task::State::Dead;
    DL.dequeue_task(&mut s, CPU, two, sleep());
    assert_eq!(sched_dl_overflow(&s, newcomer, BW_UNIT * 4 / 5), Ok(()));
    // 6.12: what fair servers have is theirs.
    let taken = |s: &Sched| sched_dl_overflow(s, newcomer, 2 * BW_UNIT).unwrap_err().0;
    let before = taken(&s);
    for rq in &mut s.rqs {
        (rq.dl.server.dl.dl_runtime, rq.dl.server.dl.dl_period) = (50 * MS, 1000 * MS);
    }
    assert_eq!(taken(&s) - before, 2 * (BW_UNIT / 20));
    // On one CPU there is room for one of them.
    s.tasks[newcomer.at()].cpus = CpuSet::one(CpuId(1));
    assert!(sched_dl_overflow(&s, newcomer, BW_UNIT * 96 / 100).is_err());
    s.rd.dl_bw = None;
    assert_eq!(sched_dl_overflow(&s, newcomer, 5 * BW_UNIT), Ok(()));
}

#[test]
fn reclaiming_takes_what_nobody_uses() {
    let limit = Some(RtBandwidth { runtime_ns: 950 * MS, period_ns: 1000 * MS });
    // Before 6.5 what may be admitted and is not was taken off a whole CPU: 0.25 of the rate, 20 ms of budget in 80 ms.
    for (since_6_5, share_pct) in [(true, 95), (false, 80)] {
        let reclaim = Reclaim::new(since_6_5, limit);
        let mut s = Sched::bare(1, MS);
        at(&mut s, 100 * MS);
        let p = dl_task(&mut s, 20 * MS, 100 * MS);
        schedule(&mut s);
        let got = spin(&mut s, Deadline { reclaim: Some(reclaim) }, p, 1000);
        assert!(got.abs_diff(share_pct * 10 * MS) < 20 * MS, "alone it gets {share_pct} % of the CPU, not {got} ns");
        // Another that is active keeps its bandwidth: budget goes at the rate of what the two claim together.
        sleeper(&mut s, 30 * MS, 100 * MS, 100 * MS);
        s.rqs[0].dl.running_bw = s.rqs[0].dl.this_bw;
        let cost = grub_reclaim(&s.rqs[0].dl, s.tasks[p.at()].dl.dl_bw, reclaim, MS);
        let expect = if since_6_5 { MS * 50 / 95 } else { MS * 55 / 100 };
        assert!(cost.abs_diff(expect) < MS / 100, "{cost}");
    }
}

#[test]
fn waiting_tasks_are_pushed_and_pulled() {
    let mut s = Sched::bare(2, MS);
    at(&mut s, 100 * MS);
    let first = dl_task(&mut s, 5 * MS, 20 * MS);
    schedule(&mut s);
    let waiter = dl_task(&mut s, 5 * MS, 30 * MS);
    let req = Request { pid: waiter, prev_cpu: CPU, this_cpu: CPU, kind: Kind::Wakeup { sync: false }, in_irq: false };
    assert_eq!(select_task_rq(&mut s, &req).cpu, CpuId(1));
    assert_eq!(push_dl_task(&mut s, CPU, CPU), Push::Move(waiter, CpuId(1)));
    assert_eq!(pull_dl_task(&s, CpuId(1), CPU), Some(waiter));
    assert_eq!(pull_dl_task(&s, CPU, CpuId(1)), None);
    // A CPU with a later deadline will do; one with an earlier will not.
    s.rqs[1].dl.queue.insert((140 * MS, 1, Pid(77)));
    assert_eq!(push_dl_task(&mut s, CPU, CPU), Push::Move(waiter, CpuId(1)));
    s.rqs[1].dl.queue.insert((125 * MS, 1, Pid(78)));
    assert_eq!(push_dl_task(&mut s, CPU, CPU), Push::Nothing);
    s.tasks[first.at()].dl.deadline = 200 * MS;
    assert_eq!(push_dl_task(&mut s, CPU, CPU), Push::Resched);
}

#[test]
fn capacities_count_where_the_kernel_is_aware_of_them() {
    for (aware, on, there_is) in [(false, 0, 2 * BW_UNIT), (true, 1, BW_UNIT + BW_UNIT / 2)] {
        let mut s = Sched::bare(2, MS);
        (s.dl_capacity_aware, s.rqs[0].cpu_capacity_orig) = (aware, 512);
        s.rd.dl_bw = Some(RtBandwidth { runtime_ns: 1000 * MS, period_ns: 1000 * MS });
        let p = sleeper(&mut s, 14 * MS, 20 * MS, 20 * MS);
        let kind = Kind::Wakeup { sync: false };
        let req = Request { pid: p, prev_cpu: CPU, this_cpu: CPU, kind, in_irq: false };
        assert_eq!(select_task_rq(&mut s, &req).cpu, CpuId(on), "{aware}");
        let newcomer = spawn(&mut s, 0);
        s.tasks[newcomer.at()].cpus = CpuSet::first(2);
        let taken = to_ratio(20 * MS, 14 * MS);
        assert_eq!(sched_dl_overflow(&s, newcomer, 2 * BW_UNIT), Err((taken, there_is)), "{aware}");
    }
}

// ---- properties ------------------------------------------------------------------------------------------------------

/// A task that comes again and again.
#[derive(Clone, Copy, Debug)]
struct Job {
    runtime: u64,
    period: u64,
    /// What a job needs; more than `runtime` for one that overruns.
    demand: u64,
    /// First arrival, and how much later than its period each next one comes.
    offset: u64,
    jitter: u64,
}

struct State {
    pid: Pid,
    job: Job,
    next: u64,
    /// Of the present job: work left, and its deadline.
    left: u64,
    due: u64,
    worst: i64,
}

/// One CPU, exact to the ns: budgets end when they end, not at a tick. Worst lateness of each, ns.
fn play(jobs: &[Job], end: u64) -> Vec<i64> {
    let mut s = Sched::bare(1, 4 * MS);
    s.features.hrtick_dl = true;
    at(&mut s, MS);
    let mut states: Vec<State> = Vec::new();
    for &job in jobs {
        let pid = sleeper(&mut s, job.runtime, job.period, job.period);
        states.push(State { pid, job, next: MS + job.offset, left: 0, due: u64::MAX, worst: i64::MIN });
    }
    let mut timers: Vec<(u64, Hrtimer)> = Vec::new();
    loop {
        let curr = s.rqs[0].curr;
        let completion = states.iter().find(|t| t.pid == curr).map(|t| s.now + t.left);
        let arrival = states.iter().filter(|t| t.left == 0).map(|t| t.next).min();
        let timer = timers.iter().map(|t| t.0).min();
        let now = [completion, arrival, timer].into_iter().flatten().min().expect("something goes on").max(s.now);
        if now >= end {
            break;
        }
        let ran = now - s.now;
        at(&mut s, now);
        if let Some(t) = states.iter_mut().find(|t| t.pid == curr) {
            t.left -= ran;
            if t.left == 0 {
                t.worst = t.worst.max(now as i64 - t.due as i64);
                t.next = (t.next + t.job.period + t.job.jitter).max(now);
                DL.dequeue_task(&mut s, CPU, curr, sleep());
                s.tasks[curr.at()].on_rq = OnRq::No;
                s.rqs[0].need_resched = true;
            }
        }
        for (_, timer) in timers.extract_if(.., |t| t.0 <= now) {
            match timer {
                Hrtimer::Replenish(pid) => {
                    if dl_task_timer(&mut s, CPU, pid) {
                        DL.wakeup_preempt(&mut s, CPU, pid, false);
                    }
                }
                Hrtimer::Inactive(pid) => dl_bandwidth::inactive_task_timer(&mut s, CPU, pid),
                _ => {
                    let curr = s.rqs[0].curr;
                    if curr != Pid(0) && s.tasks[curr.at()].on_rq == OnRq::Queued {
                        DL.task_tick(&mut s, CPU, curr);
                    }
                }
            }
        }
        for t in states.iter_mut().filter(|t| t.left == 0 && t.next <= now) {
            (t.left, t.due) = (t.job.demand, now + t.job.period);
            wake(&mut s, t.pid);
        }
        if s.rqs[0].need_resched || s.rqs[0].curr == Pid(0) {
            schedule(&mut s);
        }
        for request in std::mem::take(&mut s.hrtimers) {
            timers.retain(|t| t.1 != request.timer);
            timers.extend(request.at.map(|at| (at, request.timer)));
        }
    }
    states.iter().map(|t| t.worst).collect()
}

/// Tasks whose bandwidths sum to at most 95 %.
fn job_sets() -> impl Strategy<Value = Vec<Job>> {
    let one = (1u64..1000, 1u64..100, 0u64..50_000, 0u64..3000);
    prop::collection::vec(one, 1..7).prop_map(|raw| {
        let whole: u64 = raw.iter().map(|r| r.0).sum();
        let job = |&(weight, period, offset, jitter): &(u64, u64, u64, u64)| {
            let period = period * MS;
            let runtime = (period * 95 * weight / (whole * 100)).max(1024);
            Job { runtime, period, demand: runtime, offset: offset * US, jitter: jitter * US }
        };
        raw.iter().map(job).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Earliest deadline first on one CPU meets every deadline when the sum of bandwidths is at most 95 %.
    #[test]
    fn edf_never_misses(jobs in job_sets(), share in 1u64..=100) {
        let jobs: Vec<Job> = jobs.iter().map(|j| Job { demand: (j.demand * share / 100).max(1), ..*j }).collect();
        let worst = play(&jobs, 1000 * MS);
        prop_assert!(worst.iter().all(|&late| late <= 0), "{:?}", worst);
    }

    /// A task that needs more than its budget delays nobody but itself.
    #[test]
    fn an_overrunning_task_harms_nobody(jobs in job_sets(), who in any::<prop::sample::Index>(), times in 2u64..20) {
        let mut jobs = jobs;
        let who = who.index(jobs.len());
        jobs[who].demand *= times;
        let worst = play(&jobs, 1000 * MS);
        let others = worst.iter().enumerate().filter(|(i, _)| *i != who);
        prop_assert!(others.clone().all(|(_, &late)| late <= 0), "{:?}", worst);
    }
}

/// The properties can fail: one CPU's worth and a half is too much.
#[test]
fn overload_is_seen_as_late() {
    let job = Job { runtime: 3 * MS, period: 4 * MS, demand: 3 * MS, offset: 0, jitter: 0 };
    assert!(play(&[job, job], 500 * MS).iter().all(|&late| late > 0));
}
