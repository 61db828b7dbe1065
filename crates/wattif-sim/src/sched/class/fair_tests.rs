//! Tests of the fair classes: groups, fairness, and EEVDF's pick against a picker that looks at everyone.

use super::*;
use crate::sched::class::cfs::Cfs;
use crate::sched::class::eevdf::{self, Eevdf};
use crate::sched::task::{State, Task, TaskGroup};

const MS: u64 = 1_000_000;

/// A new fair task on CPU 0 of a bare machine, not queued.
pub(crate) fn spawn(s: &mut Sched, nice: i8) -> Pid {
    let pid = Pid(s.tasks.len() as u32);
    let prio = (120 + i32::from(nice)) as u8;
    s.tasks.push(Task { pid, nice, prio, normal_prio: prio, ..Task::default() });
    s.se.push(SchedEntity::default());
    init_task(s, pid);
    pid
}

/// A bare machine with groups below the root, `(parent, shares, idle)`.
fn grouped(nr_cpus: usize, groups: &[(u32, u64, bool)]) -> Sched {
    let mut s = Sched::bare(nr_cpus, 4 * MS);
    for &(parent, shares, idle) in groups {
        s.groups.push(TaskGroup { parent, shares, idle, ..TaskGroup::root() });
    }
    s.cfs = vec![CfsRq::default(); s.groups.len() * nr_cpus];
    s.se = vec![SchedEntity::default(); s.groups.len() * nr_cpus + 1];
    init_groups(&mut s);
    s
}

/// One CPU, or several, driven by hand.
struct Machine<'c> {
    s: Sched,
    class: &'c dyn SchedClass,
}

impl Machine<'_> {
    fn new_task(&mut self, nice: i8, group: u32, policy: Policy, cpu: u32) -> Pid {
        let pid = spawn(&mut self.s, nice);
        let task = &mut self.s.tasks[pid.at()];
        (task.group, task.policy, task.cpu) = (group, policy, CpuId(cpu));
        init_task(&mut self.s, pid);
        self.clock(cpu);
        self.class.task_fork(&mut self.s, pid);
        self.enqueue(pid, Enqueue { initial: true, ..Enqueue::default() });
        pid
    }

    fn clock(&mut self, cpu: u32) {
        pelt::update_rq_clock(&mut self.s.rqs[cpu as usize], self.s.now);
    }

    fn enqueue(&mut self, pid: Pid, flags: Enqueue) {
        let cpu = self.s.tasks[pid.at()].cpu;
        self.clock(cpu.0);
        self.s.tasks[pid.at()].state = State::Running;
        if self.s.se[self.s.se_of(pid)].sched_delayed {
            self.class.enqueue_task(&mut self.s, cpu, pid, Enqueue { delayed: true, ..Enqueue::default() });
        } else {
            self.class.enqueue_task(&mut self.s, cpu, pid, flags);
        }
        self.s.tasks[pid.at()].on_rq = OnRq::Queued;
        self.class.wakeup_preempt(&mut self.s, cpu, pid, flags.initial);
        self.reschedule(cpu.0);
    }

    fn wake(&mut self, pid: Pid) {
        self.enqueue(pid, Enqueue { wakeup: true, ..Enqueue::default() });
    }

    fn block(&mut self, cpu: u32) {
        self.clock(cpu);
        let pid = self.s.rqs[cpu as usize].curr;
        self.s.tasks[pid.at()].state = State::Sleeping;
        let sleep = Dequeue { sleep: true, ..Dequeue::default() };
        if self.class.dequeue_task(&mut self.s, CpuId(cpu), pid, sleep) {
            self.s.tasks[pid.at()].on_rq = OnRq::No;
        }
        self.s.rqs[cpu as usize].need_resched = true;
        self.reschedule(cpu);
    }

    fn reschedule(&mut self, cpu: u32) {
        let c = CpuId(cpu);
        if !self.s.rqs[c.at()].need_resched {
            return;
        }
        let prev = self.s.rqs[c.at()].curr;
        let next = self.class.pick_task(&mut self.s, c);
        match next {
            Some(next) if prev == Pid(0) => self.class.set_next_task(&mut self.s, c, next, true),
            Some(next) => self.class.put_prev_set_next_task(&mut self.s, c, prev, next),
            None => {
                if prev != Pid(0) {
                    self.class.put_prev_task(&mut self.s, c, prev);
                }
                pelt::update_idle_rq_clock_pelt(&mut self.s.rqs[c.at()], &self.s.cfs[c.at()]);
            }
        }
        self.s.rqs[c.at()].curr = next.unwrap_or_default();
        self.s.rqs[c.at()].need_resched = false;
        self.check_counts();
    }

    /// Ticks all CPUs for a time.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.s.now += MS;
            for cpu in 0..self.s.rqs.len() as u32 {
                self.clock(cpu);
                let curr = self.s.rqs[cpu as usize].curr;
                if curr != Pid(0) {
                    self.class.task_tick(&mut self.s, CpuId(cpu), curr);
                }
                self.reschedule(cpu);
            }
        }
    }

    fn runtime_ms(&self, pid: Pid) -> u64 {
        self.s.se[self.s.se_of(pid)].sum_exec_runtime / MS
    }

    /// Counts of every queue agree with the entities that are on it.
    fn check_counts(&self) {
        let s = &self.s;
        let mut nr = vec![(0, 0); s.cfs.len()];
        let (mut tasks, mut delayed) = (vec![0; s.cfs.len()], vec![0; s.cfs.len()]);
        for i in 0..s.se.len() {
            let se = &s.se[i];
            let is_task = s.task_of(i).is_some_and(|p| p != Pid(0));
            if !se.on_rq || !(is_task || se.my_q != NONE) {
                continue;
            }
            nr[se.cfs_rq].0 += 1;
            nr[se.cfs_rq].1 += se.weight;
            let mut at = i;
            while is_task && at != NONE {
                tasks[s.se[at].cfs_rq] += 1;
                delayed[s.se[at].cfs_rq] += u32::from(se.sched_delayed);
                at = s.se[at].parent;
            }
        }
        for (q, cfs) in s.cfs.iter().enumerate() {
            assert_eq!((cfs.nr_queued, cfs.load_weight), nr[q], "queue {q}");
            assert_eq!((cfs.h_nr_running, cfs.h_nr_delayed), (tasks[q], delayed[q]), "queue {q}");
            let running = u32::from(cfs.curr != NONE && s.se[cfs.curr].on_rq);
            assert_eq!(cfs.tree.iter().count() as u32 + running, cfs.nr_queued, "queue {q}");
        }
    }
}

fn both(check: impl Fn(&dyn SchedClass)) {
    check(&Cfs::new(1));
    check(&Eevdf::new(700_000, 1));
}

#[test]
fn two_spinners_share_by_weight() {
    both(|class| {
        let mut m = Machine { s: Sched::bare(1, 4 * MS), class };
        let a = m.new_task(0, 0, Policy::Normal, 0);
        let b = m.new_task(5, 0, Policy::Normal, 0);
        m.run(2000);
        let share = m.runtime_ms(a) * 1000 / (m.runtime_ms(a) + m.runtime_ms(b));
        // 1024 : 335.
        assert!((740..770).contains(&share), "{share}");
        assert!(m.s.cfs[0].avg.util_avg > 1010);
    });
}

#[test]
fn a_group_counts_as_one_task() {
    both(|class| {
        let mut m = Machine { s: grouped(1, &[(0, 1024, false), (1, 1024, false)]), class };
        let a = m.new_task(0, 0, Policy::Normal, 0);
        let grouped: Vec<Pid> = (0..3).map(|_| m.new_task(0, 2, Policy::Normal, 0)).collect();
        m.run(3000);
        let share = m.runtime_ms(a);
        assert!((1450..1550).contains(&share), "{share}");
        for p in grouped {
            assert!((450..550).contains(&m.runtime_ms(p)), "{}", m.runtime_ms(p));
        }
        // The groups' utilisation arrives at the root.
        assert!(m.s.cfs[0].avg.util_avg > 1000, "{}", m.s.cfs[0].avg.util_avg);
        assert!((480..544).contains(&m.s.se[1].avg.util_avg), "{}", m.s.se[1].avg.util_avg);
    });
}

#[test]
fn shares_follow_the_load_on_each_cpu() {
    both(|class| {
        let mut m = Machine { s: grouped(2, &[(0, 1024, false)]), class };
        for cpu in [0, 0, 0, 1] {
            m.new_task(0, 1, Policy::Normal, cpu);
        }
        m.run(500);
        let weight = |cpu: usize| m.s.se[m.s.cfs_of(1, CpuId(cpu as u32))].weight >> 10;
        // Three of four equal tasks are on CPU 0.
        assert!((700..840).contains(&weight(0)), "{}", weight(0));
        assert!((200..320).contains(&weight(1)), "{}", weight(1));
    });
}

#[test]
fn sched_idle_is_preempted_at_once_and_never_preempts() {
    both(|class| {
        let mut m = Machine { s: grouped(1, &[(0, 1024, true)]), class };
        let idle = m.new_task(0, 0, Policy::Idle, 0);
        let in_idle_group = m.new_task(0, 1, Policy::Normal, 0);
        m.run(50);
        assert!(m.s.sched_idle_cpu(CpuId(0)));
        let normal = m.new_task(0, 0, Policy::Normal, 0);
        assert!(!m.s.sched_idle_cpu(CpuId(0)));
        // A new task of CFS starts a slice late; a waking one does not.
        m.run(3);
        assert_eq!(m.s.rqs[0].curr, normal);
        m.block(0);
        m.run(10);
        m.wake(normal);
        // EEVDF always reschedules, but an idle task that is owed time may have the earlier deadline for a moment.
        m.run(2);
        assert_eq!(m.s.rqs[0].curr, normal);
        m.run(1000);
        let used =
            m.runtime_ms(normal) * 1000 / (m.runtime_ms(idle) + m.runtime_ms(in_idle_group) + m.runtime_ms(normal));
        assert!(used > 930, "{used}");
    });
}

#[test]
fn counts_hold_over_sleeps_and_wakes_in_groups() {
    both(|class| {
        let mut m = Machine { s: grouped(1, &[(0, 512, false), (1, 2048, false), (0, 1024, true)]), class };
        let pids: Vec<Pid> = (0..8).map(|n| m.new_task(n as i8 - 3, n % 4, Policy::Normal, 0)).collect();
        let mut seed = 7u64;
        for _ in 0..4000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            m.s.now += (seed >> 33) % (2 * MS);
            let pid = pids[(seed >> 50) as usize % pids.len()];
            match (seed >> 40) % 4 {
                0 if m.s.rqs[0].curr != Pid(0) => m.block(0),
                1 => m.run(1),
                _ if m.s.tasks[pid.at()].state == State::Sleeping => m.wake(pid),
                _ => m.run(1),
            }
            m.check_counts();
        }
        let root = &m.s.cfs[0].avg;
        assert!(root.util_avg <= 1024 && root.util_sum <= 47742 << 10, "{root:?}");
    });
}

/// A group whose last task sleeps before the group has paid stays queued, with the least slice of those around it: at the root too.
#[test]
fn a_delayed_group_takes_the_least_slice_around_it() {
    let class = Eevdf::new(700_000, 1);
    let mut m = Machine { s: grouped(1, &[(0, 1024, false)]), class: &class };
    let other = m.new_task(0, 0, Policy::Normal, 0);
    let at = m.s.se_of(other);
    (m.s.se[at].slice, m.s.se[at].custom_slice) = (300_000, true);
    let sleeper = m.new_task(0, 1, Policy::Normal, 0);
    let group = m.s.cfs[m.s.cfs_of(1, CpuId(0))].se;
    for _ in 0..100 {
        m.run(1);
        if m.s.rqs[0].curr != sleeper {
            continue;
        }
        m.s.now += 3 * MS;
        m.block(0);
        if m.s.se[group].sched_delayed {
            assert_eq!(m.s.se[group].slice, 300_000);
            return;
        }
        m.wake(sleeper);
    }
    panic!("the group always has paid");
}

/// A group that one of its tasks has left for sleep is picked again before a task with an earlier deadline (6.15).
#[test]
fn the_group_of_a_sleeper_goes_on_with_pick_buddy() {
    for pick_buddy in [true, false] {
        let class = Eevdf::new(700_000, 1);
        let mut m = Machine { s: grouped(1, &[(0, 1024, false)]), class: &class };
        (m.s.features.pick_buddy, m.s.features.run_to_parity) = (pick_buddy, false);
        let both = [0; 2].map(|_| m.new_task(0, 1, Policy::Normal, 0));
        m.s.features.wakeup_preemption = false;
        let other = m.new_task(0, 0, Policy::Normal, 0);
        let group = m.s.cfs[m.s.cfs_of(1, CpuId(0))].se;
        m.s.se[group].deadline = m.s.se[group].deadline.wrapping_add(10 * MS);
        let waits = both[usize::from(m.s.rqs[0].curr == both[0])];
        m.block(0);
        assert_eq!(m.s.rqs[0].curr, if pick_buddy { waits } else { other });
    }
}

/// What is owed to a task stays the same under another weight, its virtual time does not; in 6.6 it is the other way round.
#[test]
fn a_new_weight_moves_virtual_time_since_6_7() {
    for generation in [eevdf::Generation::V6_6, eevdf::Generation::V6_12] {
        let class = Eevdf { generation, ..Eevdf::new(700_000, 1) };
        let mut m = Machine { s: Sched::bare(1, 4 * MS), class: &class };
        let [a, b] = [0; 2].map(|_| m.new_task(0, 0, Policy::Normal, 0));
        m.s.now += MS / 2;
        m.clock(0);
        class.update_curr(&mut m.s, CpuId(0));
        let waits = m.s.se_of(if m.s.rqs[0].curr == a { b } else { a });
        let lag = |s: &mut Sched| {
            let v = eevdf::avg_vruntime(s, 0);
            (v - s.se[waits].vruntime) as i64 * (s.se[waits].weight >> 10) as i64 / 1024
        };
        let (before, owed) = (m.s.se[waits].vruntime, lag(&mut m.s));
        assert_eq!(owed, 250_000);
        class.reweight_entity(&mut m.s, waits, 335 << 10);
        let stays = (m.s.se[waits].vruntime == before, lag(&mut m.s).abs_diff(owed) < 1000);
        assert_eq!(stays, if generation == eevdf::Generation::V6_6 { (true, false) } else { (false, true) });
    }
}

/// A task that wakes up preempts SCHED_IDLE whose slice has just begun; in 6.6 it asks for that, and the slice is protected.
#[test]
fn a_slice_of_sched_idle_is_not_protected_from_others_since_6_15() {
    for generation in [eevdf::Generation::V6_6, eevdf::Generation::V6_12] {
        let class = Eevdf { generation, ..Eevdf::new(700_000, 1) };
        let mut m = Machine { s: Sched::bare(1, 4 * MS), class: &class };
        let idle = m.new_task(0, 0, Policy::Idle, 0);
        let normal = m.new_task(0, 0, Policy::Normal, 0);
        assert_eq!(m.s.rqs[0].curr, if generation == eevdf::Generation::V6_6 { idle } else { normal });
    }
}

#[test]
fn what_interrupts_have_left_is_blocked_load_too() {
    let mut s = Sched::bare(1, 4 * MS);
    for util in [0, 5] {
        s.rqs[0].avg_irq.util_avg = util;
        update_blocked_averages(&mut s, CpuId(0));
        assert_eq!(s.rqs[0].has_blocked_load, util != 0);
    }
}

#[test]
fn load_leaves_with_a_task_that_moves() {
    both(|class| {
        let mut m = Machine { s: grouped(2, &[(0, 1024, false)]), class };
        let a = m.new_task(0, 1, Policy::Normal, 0);
        m.run(300);
        assert!(m.s.cfs[0].avg.util_avg > 900);
        m.block(0);
        set_task_cpu(class, &mut m.s, a, CpuId(1));
        m.wake(a);
        for _ in 0..3 {
            m.run(2);
            update_blocked_averages(&mut m.s, CpuId(0));
        }
        let (old, new) = (m.s.cfs[0].avg.util_avg, m.s.cfs[1].avg.util_avg);
        assert!(old < 20 && new > 900, "{old} {new}");
    });
}

/// Reference model: EEVDF's pick is the eligible entity with the earliest deadline, found by looking at everyone; with
/// RUN_TO_PARITY the running one wins while it is eligible and protected. And the lags of all sum to zero.
#[test]
fn eevdf_picks_what_a_full_scan_picks() {
    for (round_seed, run_to_parity) in [(1, false), (2, true)] {
        let mut pool = Pool::new(round_seed, run_to_parity);
        for round in 0..5000 {
            pool.change();
            pool.check(round);
        }
        assert!(pool.parity_decided > 100 || !run_to_parity, "{}", pool.parity_decided);
    }
}

/// Entities at random places of one queue.
struct Pool {
    s: Sched,
    class: Eevdf,
    queued: Vec<usize>,
    seed: u64,
    parity_decided: u32,
}

impl Pool {
    fn new(seed: u64, run_to_parity: bool) -> Pool {
        let mut s = Sched::bare(1, 4 * MS);
        s.features.run_to_parity = run_to_parity;
        Pool { s, class: Eevdf::new(700_000, 1), queued: Vec::new(), seed, parity_decided: 0 }
    }

    fn random(&mut self, n: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % n
    }

    /// One comes, one goes, one begins or ends to run, or the reference point moves.
    fn change(&mut self) {
        if self.queued.len() < 2 || self.random(3) > 0 && self.queued.len() < 40 {
            self.add();
        } else {
            let at = self.random(self.queued.len() as u64) as usize;
            let i = self.queued.swap_remove(at);
            self.stop_running(i);
            self.class.tree_remove(&mut self.s, 0, i);
            account_entity_dequeue(&mut self.s, 0, i);
            self.s.se[i].on_rq = false;
        }
        match self.random(8) {
            0 | 1 => drop(eevdf::avg_vruntime(&mut self.s, 0)),
            2 => self.run_one(),
            3 => self.stop_running(self.s.cfs[0].curr),
            _ => {}
        }
    }

    fn add(&mut self) {
        let nice = self.random(40) as i8 - 20;
        let pid = spawn(&mut self.s, nice);
        let i = self.s.se_of(pid);
        let (place, slice) = (self.random(8 * MS), 1 + self.random(6 * MS));
        let vruntime = self.s.cfs[0].zero_vruntime.wrapping_add(place).wrapping_sub(4 * MS);
        self.s.se[i].vruntime = vruntime;
        self.s.se[i].deadline = vruntime.wrapping_add(slice);
        self.s.se[i].on_rq = true;
        account_entity_enqueue(&mut self.s, 0, i);
        self.class.tree_insert(&mut self.s, 0, i);
        self.queued.push(i);
    }

    /// One leaves the tree and runs, protected or not.
    fn run_one(&mut self) {
        self.stop_running(self.s.cfs[0].curr);
        let at = self.random(self.queued.len() as u64) as usize;
        let i = self.queued[at];
        self.class.tree_remove(&mut self.s, 0, i);
        self.s.cfs[0].curr = i;
        let deadline = self.s.se[i].deadline as i64;
        self.s.se[i].vlag = if self.random(2) == 0 { deadline } else { deadline.wrapping_sub(1) };
    }

    fn stop_running(&mut self, i: usize) {
        if i != NONE && self.s.cfs[0].curr == i {
            self.s.cfs[0].curr = NONE;
            self.class.tree_insert(&mut self.s, 0, i);
        }
    }

    fn check(&mut self, round: usize) {
        let s = &self.s;
        let after_zero = |v: u64| i128::from(v.wrapping_sub(s.cfs[0].zero_vruntime) as i64);
        let weight = |i: usize| i128::from(s.se[i].weight >> 10);
        let (sum, load) =
            self.queued.iter().fold((0, 0), |(a, l), &i| (a + after_zero(s.se[i].vruntime) * weight(i), l + weight(i)));
        let eligible = |i: usize| sum >= after_zero(s.se[i].vruntime) * load;
        let deadline = |i: usize| after_zero(s.se[i].deadline);
        let picked = self.class.pick_eevdf(s, 0);
        let curr = s.cfs[0].curr;
        let protected = curr != NONE && s.se[curr].vlag as u64 == s.se[curr].deadline;
        if self.queued.len() > 1 {
            let earliest = self.queued.iter().copied().filter(|&i| eligible(i)).map(deadline).min();
            if s.features.run_to_parity && protected && eligible(curr) {
                assert_eq!(picked, curr, "round {round}");
                self.parity_decided += u32::from(Some(deadline(curr)) != earliest);
            } else {
                assert_eq!(Some(deadline(picked)), earliest, "round {round}");
            }
        }
        // Σ w·(v − V) is what rounding V down leaves: less than one ns for the whole weight.
        let mut moved = 0;
        let v = eevdf::avg_vruntime(&mut self.s, 0);
        for &i in &self.queued {
            moved += i128::from(self.s.se[i].vruntime.wrapping_sub(v) as i64) * i128::from(self.s.se[i].weight >> 10);
        }
        assert!((0..load.max(1)).contains(&moved), "round {round}: lags sum to {moved} of {load}");
    }
}

/// util_est before 6.12 samples what the dequeue brought up to date, under either class; 6.12 what the last tick did.
#[test]
fn the_estimate_holds_the_last_run_before_6_12() {
    use crate::sched::load::util_est::Generation;
    let stale_by = |class: &dyn SchedClass, generation| {
        let mut m = Machine { s: Sched::bare(1, 4 * MS), class };
        (m.s.util_est, m.s.features.delay_dequeue) = (generation, false);
        let pid = m.new_task(0, 0, Policy::Normal, 0);
        m.run(20);
        m.s.now += 3 * MS; // after the last tick
        m.block(0);
        let avg = &m.s.se[m.s.se_of(pid)].avg;
        avg.util_avg - u64::from(generation.estimate(avg))
    };
    both(|class| assert_eq!(stale_by(class, Generation::V6_1), 0));
    assert!(stale_by(&Eevdf::new(700_000, 1), Generation::V6_12) > 10);
}
