//! Every op, driven by hand: each thread has a CPU whenever it wants one, and the clock is a number.

use super::*;
use wattif_model::ids::CpuId;
use wattif_model::workload::dist::Dist;
use wattif_model::workload::{
    BarrierSpec, Chunk, CounterSpec, DeviceSpec, GroupSpec, Named, Policy, QueueSpec, Release, SemaphoreSpec, TaskSpec,
    TimerSpec,
};

const US: u64 = 1_000;

fn fixed(n: u64) -> Amount {
    Amount::Fixed(n)
}

fn named(name: &str) -> Named {
    Named { name: name.into() }
}

/// Tasks `a`, `b`, `c` … with these programs, and two of every resource. Timer 0 is shared, timer 1 is each thread's own.
fn workload(programs: &[&[Op]]) -> Workload {
    let names = ["a", "b", "c", "d"];
    Workload {
        tasks: programs.iter().zip(names).map(|(ops, name)| TaskSpec::new(name, ops.to_vec())).collect(),
        mutexes: vec![named("m"), named("n")],
        conds: vec![named("c"), named("d")],
        barriers: vec![BarrierSpec { name: "bar".into(), parties: 2 }],
        semaphores: vec![SemaphoreSpec::new("one", 1), SemaphoreSpec { sync: true, ..SemaphoreSpec::new("zero", 0) }],
        timers: vec![
            TimerSpec { name: "tick".into(), shared: true },
            TimerSpec { name: "unique".into(), shared: false },
        ],
        devices: vec![
            DeviceSpec { name: "disk".into(), servers: 1, iowait: true },
            DeviceSpec { name: "net".into(), servers: 2, iowait: true },
        ],
        counters: vec![CounterSpec { name: "iterations".into(), total: 10 }],
        queues: vec![QueueSpec::new("q"), QueueSpec::sync("r")],
        marks: vec!["frame".into()],
        groups: vec![GroupSpec::root(), GroupSpec { path: "/bg".into(), ..GroupSpec::root() }],
        ..Workload::default()
    }
}

const SETUP: Setup = Setup {
    seed: 1,
    work_ppm: 0,
    own_tasks: u32::MAX,
    unit_capacity: 1024,
    want_program_events: true,
    want_steps: false,
};

struct World {
    programs: Programs,
    out: Effects,
}

impl World {
    fn of(workload: &Workload, setup: Setup) -> World {
        let mut programs = Programs::new(workload, setup).expect("a valid workload");
        for (i, t) in workload.tasks.iter().enumerate().filter(|(_, t)| t.instances > 0) {
            assert_eq!(t.instances, 1);
            programs.start(Pid(i as u32 + 1), i as u32, Ns(0));
        }
        World { programs, out: Effects::default() }
    }

    fn new(programs: &[&[Op]]) -> World {
        World::of(&workload(programs), SETUP)
    }

    /// Resume thread `pid` at `us`; effects of earlier calls are dropped.
    /// Its next step but for the ends of calls, whose effects add up.
    fn at(&mut self, us: u64, pid: u32) -> Step {
        self.out.clear();
        loop {
            match self.programs.resume(Pid(pid), Ns(us * US), &mut self.out) {
                Step::Called => {}
                step => return step,
            }
        }
    }

    fn all(&mut self, calls: &[(u64, u32)]) {
        for &(us, pid) in calls {
            self.at(us, pid);
        }
    }

    fn woken(&self) -> Vec<u32> {
        self.out.wakes.iter().map(|w| w.pid.0).collect()
    }

    fn blocked(&self) -> Vec<(String, String, String)> {
        let all = self.programs.deadlocked().into_iter();
        all.map(|b| (b.thread, b.waits_for, b.held_by.join(","))).collect()
    }
}

fn work(us: u64) -> Step {
    Step::Execute(Segment::Scaled(us * US * 1024))
}

fn run(us: u64) -> Op {
    Op::Run(fixed(us * US))
}

fn sleep_until(us: u64) -> Step {
    Step::Sleep { until: Ns(us * US) }
}

fn block(on: WaitReason) -> Step {
    Step::Block { on }
}

#[test]
fn run_is_work_at_the_calibration_cpus_speed() {
    let mut w = World::new(&[&[run(5), Op::Run(fixed(0)), run(7)]]);
    assert_eq!([w.at(0, 1), w.at(5, 1), w.at(12, 1)], [work(5), work(7), Step::Exit]);
    let little = Setup { unit_capacity: 400, ..SETUP };
    let mut w = World::of(&workload(&[&[run(5)]]), little);
    assert_eq!(w.at(0, 1), Step::Execute(Segment::Scaled(5 * US * 400)));
}

#[test]
fn steps_are_told_where_they_are_wanted() {
    let load = workload(&[&[Op::Loop { count: Some(2), end: 2 }, run(10), Op::LoopEnd { begin: 0 }]]);
    let mut w = World::of(&load, Setup { want_steps: true, ..SETUP });
    let mut told = |us| {
        w.at(us, 1);
        w.out.events.iter().map(|e| if let Event::ProgramStep { op, .. } = e { *op } else { 99 }).collect::<Vec<_>>()
    };
    assert_eq!((told(0), told(10), told(20)), (vec![0, 1], vec![2, 1], vec![2]));
}

#[test]
fn insensitive_work_takes_its_wall_time() {
    let little = Setup { unit_capacity: 400, ..SETUP };
    let mut w = World::of(&workload(&[&[Op::RunInsensitive(fixed(9 * US))]]), little);
    assert_eq!(w.at(0, 1), Step::Execute(Segment::Insensitive(9 * US * 1024)));
    assert_eq!(w.at(9, 1), Step::Exit);
}

#[test]
fn spin_ends_by_the_clock_and_counts_preempted_time() {
    let spin = Op::Spin { wall: fixed(100 * US), chunk: 32 * US };
    let end = Op::PhaseEnd { c_duration_us: 100, c_period_us: 0 };
    let mut w = World::new(&[&[Op::PhaseBegin, spin, end]]);
    let chunk = 32 * US * 1024;
    let segment = Segment::Spin { until: 150 * US, chunk, left: chunk };
    assert_eq!(w.at(50, 1), Step::Execute(segment));
    assert_eq!(w.at(400, 1), Step::Exit); // preempted for long
    assert!(matches!(w.out.events[0], Event::RtappStats { run_ns: 350_000, period_ns: 350_000, .. }));
}

#[test]
fn spin_then_block_polls_then_sleeps() {
    let wait = Op::SpinThenBlock { spin: fixed(50 * US), queue: 0 };
    let put = Op::Put { queue: 0, forward: false };
    let mut w = World::new(&[&[wait.clone(), wait.clone(), wait.clone(), run(1)], &[put.clone(), put.clone(), put]]);
    let poll = |until: u64| {
        let chunk = POLL_NS * 1024;
        Step::Execute(Segment::Spin { until: until * US, chunk, left: chunk })
    };
    assert_eq!(w.at(10, 1), poll(60)); // 1: nobody comes
    assert_eq!(w.at(60, 1), block(WaitReason::Queue(0)));
    // The three puts: the sleeper is woken, then two tokens are kept and taken without a step.
    assert_eq!((w.at(70, 2), w.woken()), (Step::Exit, vec![1]));
    assert_eq!(w.at(71, 1), work(1));
}

#[test]
fn pipes_and_sockets_wake_as_who_is_about_to_sleep() {
    // Of the world's resources queue 1 and semaphore 1 are such.
    let sync = |wait: Op, wakes: Op| {
        let mut w = World::new(&[&[wait], &[wakes]]);
        w.all(&[(0, 1), (1, 2)]);
        assert_eq!(w.woken(), [1]);
        w.out.wakes[0].sync
    };
    let put = |queue| Op::Put { queue, forward: false };
    assert_eq!([sync(Op::Get(0), put(0)), sync(Op::Get(1), put(1))], [false, true]);
    assert!(sync(Op::SemWait(1), Op::SemPost(1)));
    assert!(!sync(Op::Wait { cond: 0, mutex: None }, Op::Signal(0)));
}

#[test]
fn a_spinner_is_served_before_a_sleeper() {
    let wait = Op::SpinThenBlock { spin: fixed(50 * US), queue: 0 };
    let put = Op::Put { queue: 0, forward: false };
    let mut w = World::new(&[&[wait, run(1)], &[Op::Get(0), run(2)], &[put]]);
    assert_eq!(w.at(0, 2), block(WaitReason::Queue(0)));
    w.at(0, 1);
    assert_eq!(w.at(20, 3), Step::Exit);
    assert_eq!((w.woken(), w.out.polled.clone()), (vec![], vec![Pid(1)]));
    assert_eq!(w.at(20, 1), work(1));
}

#[test]
fn sleep_is_relative_and_never_skipped() {
    let mut w = World::new(&[&[run(3), Op::Sleep(fixed(10 * US)), Op::Sleep(fixed(0)), run(1)]]);
    w.at(0, 1);
    assert_eq!([w.at(4, 1), w.at(15, 1), w.at(15, 1)], [sleep_until(14), sleep_until(15), work(1)]);
}

/// `delay`, then a timer of 100 µs used over and over.
fn timer_world(timer: u32, absolute: bool, delay_us: u64) -> World {
    let ops = [
        Op::Loop { count: None, end: 5 },
        Op::PhaseBegin,
        run(10),
        Op::Timer { timer, period: fixed(100 * US), absolute },
        Op::PhaseEnd { c_duration_us: 10, c_period_us: 100 },
        Op::LoopEnd { begin: 0 },
    ];
    let mut load = workload(&[&ops, &ops]);
    load.tasks[0].delay = Ns(delay_us * US);
    World::of(&load, SETUP)
}

fn wakes(w: &World) -> Vec<(u64, bool)> {
    let of = |e: &Event| match *e {
        Event::TimerWake { wu_lat_ns, missed, .. } => Some((wu_lat_ns, missed)),
        _ => None,
    };
    w.out.events.iter().filter_map(of).collect()
}

#[test]
fn timer_counts_from_the_start_and_measures_wake_up_latency() {
    let mut w = timer_world(1, false, 0);
    assert_eq!([w.at(0, 1), w.at(10, 1)], [work(10), sleep_until(100)]);
    assert_eq!(w.at(103, 1), work(10)); // 3 µs late
    let stats = Event::RtappStats {
        pid: Pid(1),
        wu_lat_ns: 3 * US,
        run_ns: 10 * US,
        period_ns: 103 * US,
        slack_ns: 90 * US as i64,
    };
    let configured = Event::RtappConfigured { pid: Pid(1), c_duration_us: 10, c_period_us: 100 };
    let wake = Event::TimerWake { pid: Pid(1), wu_lat_ns: 3 * US, missed: false };
    assert_eq!(w.out.events, [wake, stats, configured]);
    assert_eq!(w.at(113, 1), sleep_until(200)); // no drift
}

#[test]
fn a_delay_moves_the_first_expiry() {
    let mut w = timer_world(1, false, 70);
    assert_eq!([w.at(0, 1), w.at(72, 1), w.at(82, 1)], [sleep_until(70), work(10), sleep_until(170)]);
}

#[test]
fn attributes_are_set_after_the_delay() {
    let mut load = workload(&[&[run(5)]]);
    let attr = SchedAttr { policy: Policy::Fifo, rt_priority: 20, ..SchedAttr::default() };
    (load.tasks[0].attr, load.tasks[0].cpus, load.tasks[0].group) = (attr, Some(CpuSet::one(CpuId(1))), 1);
    let mut now = World::of(&load, SETUP);
    assert_eq!(now.programs.attr(Pid(1)), &attr, "without a delay it is born with them");
    assert_eq!(now.at(0, 1), work(5));
    load.tasks[0].delay = Ns(70 * US);
    let mut w = World::of(&load, SETUP);
    assert_eq!((w.programs.attr(Pid(1)).policy, w.programs.affinity(Pid(1))), (Policy::Normal, None));
    assert_eq!([w.at(0, 1), w.at(70, 1)], [sleep_until(70), Step::SetAttr]);
    assert_eq!([w.at(70, 1), w.at(70, 1), w.at(70, 1)], [Step::SetGroup, Step::SetAffinity, work(5)]);
    assert_eq!((w.programs.attr(Pid(1)), w.programs.group(Pid(1))), (&attr, 1));
    load.tasks[0].attr = SchedAttr::default();
    let mut w = World::of(&load, SETUP);
    w.at(0, 1);
    assert_eq!(
        [w.at(70, 1), w.at(70, 1), w.at(70, 1)],
        [Step::SetGroup, Step::SetAffinity, work(5)],
        "what it has already is not asked for"
    );
}

#[test]
fn slack_is_that_of_the_last_timer_or_the_sum() {
    let timer = |us| Op::Timer { timer: 1, period: Amount::Fixed(us * US), absolute: true };
    let slack = |cumulative_slack| {
        let ops =
            [Op::PhaseBegin, timer(4000), run(1500), timer(1000), Op::PhaseEnd { c_duration_us: 0, c_period_us: 0 }];
        let mut w = World::of(&Workload { cumulative_slack, ..workload(&[&ops]) }, SETUP);
        assert_eq!([w.at(0, 1), w.at(4000, 1)], [sleep_until(4000), work(1500)]);
        w.at(5500, 1);
        let of = |e: &Event| if let Event::RtappStats { slack_ns, .. } = e { Some(*slack_ns) } else { None };
        w.out.events.iter().find_map(of).unwrap()
    };
    assert_eq!((slack(false), slack(true)), (-500_000, 3_500_000));
}

#[test]
fn a_relative_timer_skips_what_it_missed() {
    let mut w = timer_world(1, false, 0);
    w.at(0, 1);
    assert_eq!(w.at(250, 1), work(10));
    assert_eq!(wakes(&w), [(0, true)]);
    assert!(matches!(w.out.events[1], Event::RtappStats { slack_ns: -150_000, wu_lat_ns: 0, .. }));
    assert_eq!(w.at(260, 1), sleep_until(350)); // from the miss on
}

#[test]
fn an_absolute_timer_catches_up() {
    let mut w = timer_world(1, true, 0);
    w.at(0, 1);
    assert_eq!([w.at(250, 1), w.at(260, 1)], [work(10), work(10)]); // 100 and 200 are gone
    assert_eq!(wakes(&w), [(0, true)]);
    assert_eq!(w.at(270, 1), sleep_until(300));
}

#[test]
fn who_is_late_for_a_vsync_waits_for_the_next() {
    let vsync = |offset| Op::Vsync { period: 100 * US, offset: offset * US };
    let mut w = World::new(&[&[vsync(0), run(130), vsync(0), vsync(0), vsync(30), vsync(230)]]);
    assert_eq!([w.at(0, 1), w.at(100, 1)], [sleep_until(100), work(130)], "that of now has been");
    assert_eq!([w.at(230, 1), w.at(301, 1)], [sleep_until(300), sleep_until(400)]);
    assert_eq!(
        [w.at(400, 1), w.at(430, 1)],
        [sleep_until(430), sleep_until(530)],
        "an offset is one within the period"
    );
}

#[test]
fn a_shared_timer_has_one_expiry_and_a_unique_one_its_own() {
    let mut shared = timer_world(0, false, 0);
    let mut unique = timer_world(1, false, 0);
    for w in [&mut shared, &mut unique] {
        w.all(&[(0, 1), (0, 2), (10, 1)]);
    }
    assert_eq!([shared.at(20, 2), unique.at(20, 2)], [sleep_until(200), sleep_until(100)]);
}

#[test]
fn wu_lat_sums_over_a_phase_and_a_miss_clears_it() {
    let timer = |us: u64| Op::Timer { timer: 1, period: fixed(us * US), absolute: false };
    let end = Op::PhaseEnd { c_duration_us: 0, c_period_us: 0 };
    let mut w = World::new(&[&[Op::PhaseBegin, timer(10), timer(10), end.clone(), timer(10), timer(1), end]]);
    assert_eq!([w.at(0, 1), w.at(12, 1)], [sleep_until(10), sleep_until(20)]);
    assert_eq!(w.at(23, 1), sleep_until(30));
    assert!(matches!(w.out.events[1], Event::RtappStats { wu_lat_ns: 5_000, .. }));
    w.at(39, 1);
    assert_eq!(wakes(&w), [(9 * US, false), (0, true)]);
    assert!(matches!(w.out.events[2], Event::RtappStats { wu_lat_ns: 0, .. }));
}

#[test]
fn a_mutex_excludes_and_its_waiter_must_win_it() {
    let ops = [Op::Lock(0), run(10), Op::Unlock(0), run(1)];
    let mut w = World::new(&[&ops, &ops, &ops]);
    assert_eq!([w.at(0, 1), w.at(1, 2)], [work(10), block(WaitReason::Mutex(0))]);
    assert_eq!(w.blocked(), [], "its owner runs");
    assert_eq!((w.at(10, 1), w.woken()), (work(1), vec![2]));
    assert_eq!(w.at(10, 3), work(10)); // a newcomer is faster
    assert_eq!(w.at(11, 2), block(WaitReason::Mutex(0)));
    assert_eq!((w.at(20, 3), w.woken()), (work(1), vec![2]));
    assert_eq!(w.at(21, 2), work(10));
}

#[test]
fn a_circle_of_mutexes_is_a_deadlock_although_others_go_on() {
    let (ab, ba) = ([Op::Lock(0), run(1), Op::Lock(1)], [Op::Lock(1), run(1), Op::Lock(0)]);
    let mut w = World::new(&[&ab, &ba, &[run(100)]]);
    assert_eq!([w.at(0, 1), w.at(0, 2), w.at(0, 3)], [work(1), work(1), work(100)]);
    assert_eq!([w.at(1, 1), w.at(1, 2)], [block(WaitReason::Mutex(1)), block(WaitReason::Mutex(0))]);
    let names: Vec<String> =
        w.blocked().into_iter().map(|(thread, _, held_by)| format!("{thread} by {held_by}")).collect();
    assert_eq!(names, ["a-0 by b-1", "b-1 by a-0"]);
}

/// `a` holds a mutex and waits for a post that `b` can make only behind the mutex.
#[test]
fn a_circle_over_a_mutex_and_a_semaphore_is_a_deadlock_although_others_go_on() {
    let (a, b) = ([Op::Lock(0), Op::SemWait(1), Op::Unlock(0)], [Op::Lock(0), Op::SemPost(1), Op::Unlock(0)]);
    let mut w = World::new(&[&a, &b, &[run(100)], &[run(100), Op::SemPost(1)]]);
    w.all(&[(0, 1), (0, 2), (0, 3), (0, 4)]);
    assert_eq!(w.blocked(), [], "`d` will post");
    w.at(100, 4);
    w.at(100, 1);
    w.at(100, 2);
    assert_eq!(w.blocked(), []);
    let mut w = World::new(&[&a, &b, &[run(100)]]);
    w.all(&[(0, 1), (0, 2), (0, 3)]);
    let who: Vec<String> = w.blocked().into_iter().map(|(t, what, by)| format!("{t}, {what}: {by}")).collect();
    assert_eq!(who, ["a-0, semaphore `zero`: ", "b-1, mutex `m`: a-0"]);
}

/// A thread that ends with its mutex may be helped by one that unlocks what it never locked; one that would have to win the mutex first is
/// no help, and with priority inheritance nobody is.
#[test]
fn who_unlocks_for_another_prevents_a_deadlock() {
    let blocked = |helper: &[Op], pi_enabled| {
        let holder = [Op::Lock(0), run(1)];
        let programs = [&holder[..], &[Op::Lock(0), run(1)], helper];
        let mut w = World::of(&Workload { pi_enabled, ..workload(&programs) }, SETUP);
        w.all(&[(0, 1), (0, 2), (0, 3), (1, 1)]);
        w.blocked().len()
    };
    let sleep = Op::Sleep(fixed(100 * US));
    assert_eq!(blocked(&[sleep.clone(), Op::Unlock(0)], false), 0);
    assert_eq!(blocked(&[sleep.clone(), Op::Unlock(0)], true), 1);
    assert_eq!(blocked(&[sleep.clone(), Op::Lock(0), Op::Unlock(0)], false), 1);
    assert_eq!(blocked(&[sleep.clone(), Op::Exit, Op::Unlock(0)], false), 1);
    assert_eq!(blocked(&[sleep, Op::Wait { cond: 0, mutex: Some(0) }], false), 0, "waiting releases");
}

/// Help may come from a thread that has yet to be forked, through others that are blocked now, or not at all.
#[test]
fn help_is_looked_for_in_forks_and_behind_other_waits() {
    let sleep = Op::Sleep(fixed(100 * US));
    let blocked = |ops: [&[Op]; 3]| {
        let mut workload = workload(&[ops[0], ops[1], ops[2], &[sleep.clone(), Op::Signal(0)]]);
        workload.tasks[3].instances = 0;
        let mut w = World::of(&workload, SETUP);
        w.all(&[(0, 1), (0, 2), (0, 3)]);
        w.blocked().into_iter().map(|b| b.0).collect::<Vec<_>>()
    };
    let wait = Op::Wait { cond: 0, mutex: None };
    assert_eq!(blocked([std::slice::from_ref(&wait), &[run(1)], &[run(1)]]), ["a-0"]);
    assert!(blocked([std::slice::from_ref(&wait), &[run(1)], &[run(1), Op::Fork(3)]]).is_empty());
    // `c` posts, `b` goes on and puts a token, `a` gets it.
    let (a, b) = ([Op::Get(0)], [Op::SemWait(1), Op::Put { queue: 0, forward: false }]);
    assert!(blocked([&a, &b, &[run(1), Op::SemPost(1)]]).is_empty());
    assert_eq!(blocked([&a, &b, &[run(1)]]), ["a-0", "b-1"]);
    // A barrier is left when as many come as are missing.
    let come = [run(1), Op::Barrier(0)];
    assert!(blocked([&[Op::Barrier(0)], &come, &[run(1)]]).is_empty());
    assert_eq!(blocked([&[Op::Barrier(0)], &[Op::Get(0), Op::Barrier(0)], &[run(1)]]), ["a-0", "b-1"]);
}

/// Who could give what the others wait for: by the rest of their programs.
#[test]
fn a_deadlock_names_who_could_end_it() {
    let endless = |ops: &[Op]| {
        let end = ops.len() as u32 + 1;
        [&[Op::Loop { count: None, end }], ops, &[Op::LoopEnd { begin: 0 }]].concat()
    };
    let twice = [Op::Loop { count: Some(2), end: 3 }, Op::SemPost(1), Op::Barrier(0), Op::LoopEnd { begin: 0 }];
    let givers = |programs: &[&[Op]]| {
        let mut w = World::new(programs);
        (1..=programs.len() as u32).for_each(|pid| assert!(matches!(w.at(0, pid), Step::Block { .. }), "{pid}"));
        let all = w.programs.deadlocked().into_iter();
        all.map(|b| (b.waits_for, b.given_by.join(","))).collect::<Vec<_>>()
    };
    let is = |what: &str, who: &str| (what.to_string(), who.to_string());
    let wait = |cond| Op::Wait { cond, mutex: None };
    let (a, b) = (endless(&[wait(0), Op::Signal(1)]), endless(&[wait(1), Op::Broadcast(0)]));
    assert_eq!(givers(&[&a, &b]), [is("condition `c`", "b-1"), is("condition `d`", "a-0")]);
    // What has been posted is over; a barrier is still to come to for who does not wait there.
    let (gone, later) = ([Op::SemPost(1), Op::SemWait(1), Op::SemWait(1)], [Op::Get(0), Op::SemPost(1)]);
    assert_eq!(givers(&[&gone, &later]), [is("semaphore `zero`", "b-1"), is("queue `q`", "")]);
    assert_eq!(givers(&[&twice, &[wait(0), Op::Barrier(0)]]), [is("barrier `bar`", "b-1"), is("condition `c`", "")]);
    // The loop has a round left, in which it posts again; nothing comes after one that never ends, nor after an exit.
    assert_eq!(givers(&[&twice, &[Op::SemWait(1), Op::SemWait(1)]])[1], is("semaphore `zero`", "a-0"));
    let never = [endless(&[wait(0)]), vec![Op::Signal(0)]].concat();
    assert_eq!(givers(&[&never, &[wait(1), Op::Exit, Op::Signal(0)]])[0], is("condition `c`", ""));
}

#[test]
fn unlocking_a_free_mutex_does_nothing() {
    let mut w = World::new(&[&[Op::Unlock(0), Op::Lock(0), Op::Lock(0)]]);
    assert_eq!(w.at(0, 1), block(WaitReason::Mutex(0))); // locking twice hangs, as it does
    assert_eq!(w.blocked(), [("a-0".into(), "mutex `m`".into(), "a-0".into())]);
}

fn fifo(rt_priority: u8) -> SchedAttr {
    SchedAttr { policy: Policy::Fifo, rt_priority, ..SchedAttr::default() }
}

#[test]
fn priority_is_lent_along_the_chain_and_given_back() {
    let low = [Op::Lock(0), run(10), Op::Unlock(0), run(1)];
    let middle = [Op::Lock(1), Op::Lock(0), run(5), Op::Unlock(0), Op::Unlock(1), run(1)];
    let high = [Op::Lock(1), run(2), Op::Unlock(1)];
    let mut load = workload(&[&low, &middle, &high]);
    load.pi_enabled = true;
    load.tasks[2].attr = fifo(50);
    let mut w = World::of(&load, SETUP);
    w.at(0, 1);
    assert_eq!(w.at(1, 2), block(WaitReason::Mutex(0)));
    assert_eq!(w.out.boosts, []); // fair threads lend each other nothing
    assert_eq!(w.at(2, 3), block(WaitReason::Mutex(1)));
    let lent = |pid, donor: Option<u32>| Boost { pid: Pid(pid), donor: donor.map(Pid) };
    assert_eq!(w.out.boosts, [lent(2, Some(3)), lent(1, Some(3))]);
    // Handed over: the heir owns it when it wakes up.
    assert_eq!((w.at(10, 1), w.woken()), (work(1), vec![2]));
    assert_eq!(w.out.boosts, [lent(1, None)]);
    assert_eq!(w.at(10, 2), work(5));
    assert_eq!((w.at(15, 2), w.woken()), (work(1), vec![3]));
    assert_eq!(w.out.boosts, [lent(2, None)]);
    assert_eq!(w.at(15, 3), work(2));
}

#[test]
fn without_pi_nothing_is_lent_but_real_time_goes_first() {
    let ops = [Op::Lock(0), run(10), Op::Unlock(0), run(1)];
    let mut load = workload(&[&ops, &ops, &ops]);
    load.tasks[2].attr = fifo(1);
    let mut w = World::of(&load, SETUP);
    w.all(&[(0, 1), (1, 2), (2, 3)]);
    assert_eq!(w.out.boosts, []);
    w.at(10, 1);
    assert_eq!((w.woken(), w.out.boosts.len()), (vec![3], 0));
}

#[test]
fn a_condition_releases_the_mutex_and_takes_it_again() {
    let waiter = [Op::Lock(0), Op::Wait { cond: 0, mutex: Some(0) }, run(3), Op::Unlock(0)];
    let signaller = [Op::Lock(0), Op::Signal(0), run(10), Op::Unlock(0), run(1)];
    let mut w = World::new(&[&waiter, &signaller]);
    assert_eq!(w.at(0, 1), block(WaitReason::Cond(0)));
    assert_eq!((w.at(1, 2), w.woken()), (work(10), vec![1])); // it got the mutex
    assert_eq!(w.at(2, 1), block(WaitReason::Mutex(0))); // awake, but the mutex is taken
    assert_eq!((w.at(11, 2), w.woken()), (work(1), vec![1]));
    assert_eq!(w.at(12, 1), work(3));
}

#[test]
fn who_waits_releases_a_contended_mutex_by_a_call_of_its_own() {
    let waiter = [Op::Lock(0), run(5), Op::Wait { cond: 0, mutex: Some(0) }, run(3), Op::Unlock(0)];
    let signaller = [Op::Lock(0), Op::Signal(0), Op::Unlock(0), run(1)];
    for signalled_first in [false, true] {
        let mut w = World::new(&[&waiter, &signaller]);
        assert_eq!(w.at(0, 1), work(5));
        assert_eq!(w.at(1, 2), block(WaitReason::Mutex(0)));
        w.out.clear();
        assert_eq!(w.programs.resume(Pid(1), Ns(5 * US), &mut w.out), Step::Called); // not asleep yet, and may be preempted
        assert_eq!(w.woken(), vec![2]);
        if signalled_first {
            assert_eq!((w.at(5, 2), w.woken()), (work(1), vec![])); // on the list, nobody to wake
            assert_eq!(w.at(6, 1), work(3)); // it does not sleep at all
        } else {
            assert_eq!(w.at(5, 1), block(WaitReason::Cond(0)));
            assert_eq!((w.at(6, 2), w.woken()), (work(1), vec![1]));
            assert_eq!(w.at(6, 1), work(3));
        }
    }
}

#[test]
fn a_signal_wakes_one_a_broadcast_all_and_nobody_means_lost() {
    let wait = |n: u64| [Op::Wait { cond: 0, mutex: None }, run(n)];
    let (first, second) = (wait(1), wait(2));
    let mut w =
        World::new(&[&first, &second, &[Op::Signal(0), run(1), Op::Broadcast(0), run(1), Op::Signal(0)], &first]);
    w.all(&[(0, 1), (0, 2)]);
    assert_eq!((w.at(1, 3), w.woken()), (work(1), vec![1]));
    w.at(1, 4);
    assert_eq!((w.at(2, 3), w.woken()), (work(1), vec![2, 4]));
    assert_eq!((w.at(3, 3), w.woken()), (Step::Exit, vec![])); // lost
    assert_eq!(w.at(3, 2), work(2));
}

#[test]
fn a_barrier_lets_all_go_when_the_last_arrives() {
    let round = [Op::Barrier(0), run(1), Op::Barrier(0), run(2)];
    let mut w = World::new(&[&round, &round]);
    assert_eq!(w.at(0, 1), block(WaitReason::Barrier(0)));
    assert_eq!((w.at(5, 2), w.woken()), (work(1), vec![1]));
    // It comes round before the other has left: a new generation.
    assert_eq!(w.at(6, 2), block(WaitReason::Barrier(0)));
    assert_eq!(w.at(7, 1), work(1));
    assert_eq!((w.at(8, 1), w.woken()), (work(2), vec![2]));
}

#[test]
fn a_semaphore_remembers_posts() {
    let mut w =
        World::new(&[&[Op::SemWait(0), run(1), Op::SemWait(0), run(2)], &[Op::SemPost(0), run(1), Op::SemPost(0)]]);
    assert_eq!(w.at(0, 1), work(1)); // initial 1
    assert_eq!(w.at(1, 1), block(WaitReason::Semaphore(0)));
    assert_eq!((w.at(2, 2), w.woken()), (work(1), vec![1]));
    assert_eq!(w.at(3, 1), work(2));
    assert_eq!((w.at(3, 2), w.woken()), (Step::Exit, vec![]));
    assert_eq!(w.programs.resources.semaphores[0].count, 1);
}

#[test]
fn a_woken_semaphore_waiter_competes() {
    let mut w = World::new(&[&[Op::SemWait(1), run(1)], &[Op::SemPost(1), Op::SemWait(1), run(2)]]);
    w.at(0, 1);
    assert_eq!((w.at(1, 2), w.woken()), (work(2), vec![1])); // the poster took it back
    assert_eq!(w.at(2, 1), block(WaitReason::Semaphore(1)));
}

/// Of two that wait the first lot wakes one; the second lot came when one was there, and is passed on by who was woken.
#[test]
fn who_was_woken_for_a_lot_passes_the_next_on() {
    let (wait, post) = (Op::SemWait(0), Op::SemPost(0));
    let owner = [vec![wait.clone(); 4], vec![run(1)], vec![post; 4], vec![run(2)]].concat();
    let waiter = [wait, run(3)];
    let mut workload = workload(&[&waiter, &waiter, &owner]);
    workload.semaphores[0] = SemaphoreSpec { release: Release::Lots(2), ..SemaphoreSpec::new("pages", 4) };
    let mut w = World::of(&workload, SETUP);
    assert_eq!(w.at(0, 3), work(1));
    assert_eq!([w.at(0, 1), w.at(0, 2)], [block(WaitReason::Semaphore(0)); 2]);
    assert_eq!((w.at(1, 3), w.woken()), (work(2), vec![1]));
    assert_eq!((w.at(2, 1), w.woken()), (work(3), vec![2]));
    assert_eq!((w.at(3, 2), w.woken()), (work(3), vec![]));
}

#[test]
fn tokens_carry_their_stamp_and_forward_keeps_it() {
    let source = [run(1), Op::Put { queue: 0, forward: false }];
    let relay = [Op::Get(0), run(5), Op::Put { queue: 1, forward: true }, Op::Mark(0)];
    let sink = [Op::Get(1), Op::Mark(0)];
    let mut w = World::new(&[&source, &relay, &sink]);
    assert_eq!([w.at(0, 3), w.at(0, 2)], [block(WaitReason::Queue(1)), block(WaitReason::Queue(0))]);
    w.all(&[(0, 1), (1, 1)]);
    assert_eq!((w.woken(), w.at(3, 2)), (vec![2], work(5)));
    let mark = |pid| Event::Mark { pid: Pid(pid), mark: 0, began_ns: US };
    assert_eq!((w.at(8, 2), w.woken(), w.out.events.clone()), (Step::Exit, vec![3], vec![mark(2)]));
    assert_eq!((w.at(9, 3), w.out.events.clone()), (Step::Exit, vec![mark(3)]));
}

#[test]
fn tokens_wait_in_order() {
    let put = Op::Put { queue: 0, forward: false };
    let get = [Op::Get(0), Op::Mark(0), Op::Get(0), Op::Mark(0)];
    let mut w = World::new(&[&[put.clone(), run(1), put], &get]);
    w.all(&[(0, 1), (1, 1)]);
    assert_eq!(w.at(9, 2), Step::Exit);
    let began: Vec<u64> = (w.out.events.iter())
        .map(|e| match e {
            Event::Mark { began_ns, .. } => *began_ns,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(began, [0, US]);
}

/// A frame begins at its tick, whenever the thread gets a CPU for it; one that is caught up, when it is come to.
#[test]
fn what_is_handed_on_behind_a_timer_began_at_its_expiry() {
    let tick = Op::Timer { timer: 1, period: fixed(10 * US), absolute: true };
    let put = Op::Put { queue: 0, forward: true };
    let get = [Op::Get(0), Op::Mark(0), Op::Get(0), Op::Mark(0)];
    let mut w = World::new(&[&[tick.clone(), run(25), put.clone(), tick, put], &get]);
    // It gets a CPU 2 µs after the expiry at 10, and comes to the one at 20 when it is 37.
    assert_eq!([w.at(0, 1), w.at(12, 1)], [Step::Sleep { until: Ns(10 * US) }, work(25)]);
    assert_eq!([w.at(37, 1), w.at(40, 2)], [Step::Exit; 2]);
    let began: Vec<u64> = (w.out.events.iter())
        .map(|e| match e {
            Event::Mark { began_ns, .. } => *began_ns,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(began, [10 * US, 37 * US]);
}

#[test]
fn draining_moves_all_tokens_stamped_anew_or_as_they_were() {
    let put = Op::Put { queue: 0, forward: false };
    let get = [Op::Get(1), Op::Mark(0)];
    for (forward, stamps) in [(true, [0, US]), (false, [2 * US; 2])] {
        let drain = Op::Drain { from: 0, to: 1, forward };
        let source = [put.clone(), run(1), put.clone(), run(1), drain];
        let mut w = World::new(&[&source, &get, &get]);
        w.all(&[(0, 2), (0, 3), (0, 1), (1, 1), (2, 1)]);
        assert_eq!(w.woken(), [2, 3]);
        let began = |w: &World| match w.out.events[..] {
            [Event::Mark { began_ns, .. }] => began_ns,
            ref other => panic!("{other:?}"),
        };
        w.at(3, 2);
        let first = began(&w);
        w.at(3, 3);
        assert_eq!([first, began(&w)], stamps, "forward: {forward}");
    }
}

#[test]
fn who_waits_for_a_device_is_not_blocked_for_ever() {
    for iowait in [true, false] {
        let mut load = workload(&[&[Op::Device { device: 0, service: fixed(10 * US) }, run(1)]]);
        load.devices[0].iowait = iowait;
        let mut w = World::of(&load, SETUP);
        assert!(matches!(w.at(0, 1), Step::Block { .. }));
        assert_eq!(w.blocked(), [], "iowait: {iowait}");
    }
}

#[test]
fn a_device_serves_in_order_up_to_its_servers() {
    let ask = |device, us: u64| [Op::Device { device, service: fixed(us * US) }, run(1)];
    let (a, b, c) = (ask(0, 10), ask(0, 20), ask(0, 5));
    let mut w = World::new(&[&a, &b, &c]);
    assert_eq!(w.at(0, 1), block(WaitReason::Device(0)));
    assert!(w.out.devices_changed && WaitReason::Device(0).is_io());
    w.all(&[(1, 2), (2, 3)]);
    assert!(!w.out.devices_changed);
    let (mut done, mut served) = (Vec::new(), Vec::new());
    while let Some(at) = w.programs.next_completion() {
        w.out.clear();
        w.programs.devices_done(at, &mut w.out);
        done.push((at.0 / US, w.woken()));
        served.append(&mut w.out.events);
    }
    assert_eq!(done, [(10, vec![1]), (30, vec![2]), (35, vec![3])]);
    let event = |(pid, queued, service)| Event::DeviceDone {
        pid: Pid(pid),
        device: 0,
        queued_ns: queued * US,
        service_ns: service * US,
    };
    assert_eq!(served, [(1, 0, 10), (2, 9, 20), (3, 28, 5)].map(event), "they asked at 0, 1 and 2");
    assert_eq!(w.at(35, 3), work(1));

    let (a, b) = (ask(1, 10), ask(1, 4));
    let mut w = World::new(&[&a, &b]);
    w.all(&[(0, 1), (1, 2)]);
    assert_eq!(w.programs.next_completion(), Some(Ns(5 * US))); // both at once
}

#[test]
fn take_work_shares_a_counter() {
    let ops = |chunk| {
        let take = Op::TakeWork { counter: 0, chunk, per_iteration: fixed(US), done: 2 };
        [take, Op::Jump(0), Op::Exit]
    };
    let (four, rest) = (ops(Chunk::Fixed(4)), ops(Chunk::Guided { parties: 2, min: 1 }));
    let mut w = World::new(&[&four, &rest, &[Op::ResetWork(0)]]);
    assert_eq!([w.at(0, 1), w.at(0, 2)], [work(4), work(3)]); // 10 - 4 = 6, half of it
    assert_eq!([w.at(4, 1), w.at(4, 2), w.at(8, 1)], [work(3), Step::Exit, Step::Exit]);
    w.at(8, 3);
    assert_eq!(w.programs.resources.counters[0].left, 10);
}

#[test]
fn drawn_iterations_are_summed() {
    let per_iteration = Amount::Random(Dist::Sequence { values: vec![US, 3 * US] });
    let take = Op::TakeWork { counter: 0, chunk: Chunk::Fixed(5), per_iteration, done: 2 };
    let mut w = World::new(&[&[take, Op::Jump(0)]]);
    assert_eq!([w.at(0, 1), w.at(9, 1)], [work(9), work(11)]);
}

#[test]
fn yield_goes_on_when_resumed() {
    let mut w = World::new(&[&[Op::Yield, run(1)]]);
    assert_eq!([w.at(0, 1), w.at(0, 1)], [Step::Yield, work(1)]);
}

#[test]
fn loops_nest_repeat_and_skip() {
    let ops = [
        Op::Loop { count: Some(2), end: 5 },
        run(1),
        Op::Loop { count: Some(2), end: 4 },
        run(2),
        Op::LoopEnd { begin: 2 },
        Op::LoopEnd { begin: 0 },
        Op::Loop { count: Some(0), end: 8 },
        run(9),
        Op::LoopEnd { begin: 6 },
        run(3),
    ];
    let mut w = World::new(&[&ops]);
    let steps: Vec<Step> = (0..8).map(|t| w.at(t, 1)).collect();
    let expect = [work(1), work(2), work(2), work(1), work(2), work(2), work(3), Step::Exit];
    assert_eq!(steps, expect);
}

#[test]
fn an_endless_loop_is_left_by_exit_or_jump() {
    let exit = [Op::Loop { count: None, end: 3 }, run(1), Op::Jump(4), Op::LoopEnd { begin: 0 }, Op::Exit, run(9)];
    let mut w = World::new(&[&exit, &[Op::Loop { count: None, end: 2 }, run(1), Op::LoopEnd { begin: 0 }]]);
    assert_eq!([w.at(0, 1), w.at(1, 1)], [work(1), Step::Exit]);
    assert_eq!(w.programs.alive(), 1);
    assert!((0..1000).all(|t| w.at(t, 2) == work(1)));
}

#[test]
fn fork_names_its_thread_and_has_a_limit() {
    let mut load = workload(&[
        &[run(1), Op::Fork(1), run(1), Op::Fork(1)],
        &[
            Op::Timer { timer: 1, period: fixed(10 * US), absolute: false },
            Op::Anchor { timer: 1, period: 8 * US, offset: 15 * US },
            Op::Timer { timer: 1, period: fixed(10 * US), absolute: false },
            Op::Anchor { timer: 1, period: 1, offset: 0 },
            Op::Timer { timer: 1, period: fixed(10 * US), absolute: false },
        ],
    ]);
    load.tasks[1].instances = 0;
    let mut w = World::of(&load, SETUP);
    w.at(0, 1);
    assert_eq!(w.at(7, 1), work(1));
    let fork = Fork { parent: Pid(1), task: 1, number: 0, inherited: Inherited::default() };
    assert_eq!(w.out.forks, std::slice::from_ref(&fork));
    w.programs.start_forked(Pid(2), &fork, Ns(7 * US));
    assert_eq!((w.programs.name(Pid(2)), w.programs.alive()), ("b-1-0000", 2));
    assert_eq!(w.at(7, 2), sleep_until(10), "its timers count from the common start");
    assert_eq!(w.at(12, 2), sleep_until(25), "15 is nearer than 7");
    assert_eq!(w.at(26, 2), sleep_until(36));
    w.programs.forks[1] = MAX_FORKS;
    assert_eq!(w.at(8, 1), Step::Fail);
    assert!(w.programs.failure().unwrap().to_string().contains("1024 is the limit"));
}

/// The platform's background threads, here `c` and `d`, do not count.
#[test]
fn forked_threads_are_counted_among_the_workloads_own() {
    let mut load = workload(&[&[Op::Fork(1), Op::Fork(1)], &[run(1)], &[run(1)], &[run(1)]]);
    load.tasks[1].instances = 0;
    let mut w = World::of(&load, Setup { own_tasks: 2, ..SETUP });
    w.at(0, 1);
    for (fork, name) in w.out.forks.clone().iter().zip(["b-1-0000", "b-2-0001"]) {
        let pid = Pid(5 + fork.number);
        w.programs.start_forked(pid, fork, Ns(0));
        assert_eq!(w.programs.name(pid), name);
    }
}

#[test]
fn a_run_may_not_fork_without_end() {
    let mut load = workload(&[&[Op::Fork(1)], &[run(1)]]);
    load.tasks[1].instances = 0;
    let mut w = World::of(&load, SETUP);
    // As if other tasks had been forked often.
    w.programs.forks.extend([1000; 65]);
    w.programs.forks.push(536);
    assert_eq!(w.at(0, 1), Step::Fail);
    assert!(w.programs.failure().unwrap().to_string().contains("65536 forked ones already"));
}

#[test]
fn a_group_that_does_not_exist_is_an_error() {
    let mut load = workload(&[&[run(1)]]);
    load.tasks[0].group = 9;
    let why = Programs::new(&load, SETUP).expect_err("there is no group").to_string();
    assert!(why.contains("group 9 does not exist"), "{why}");
}
