//! Groups: weights, limits, clamps and idle groups, seen from outside: shares of CPU time, throttling, frequency.

use proptest::prelude::*;
use std::collections::BTreeMap;
use wattif::data::Source;
use wattif::load;
use wattif::run::run;
use wattif::settings::Settings;
use wattif_formats::rtapp::Dialect;
use wattif_model::run::RunSpec;
use wattif_model::trace::{Event, Interest, Observer, ThreadInfo};
use wattif_model::{CpuId, Ns, Pid};

const MS: u64 = 1_000_000;
const KERNELS: [&str; 3] = ["linux-6.1", "linux-6.6", "linux-6.12"];

fn spec(platform: &str, kernel: &str, tasks: &str, groups: &str, ms: u64) -> RunSpec {
    let none = Settings::default();
    let platform = load::platform(platform, &none).expect("built in").value;
    let text = format!(r#"{{ "tasks": {{ {tasks} }}, "groups": {{ {groups} }} }}"#);
    let source = Source { name: "case.json".into(), text: text.into() };
    let workload = load::parse_workload(source, platform.nr_cpus(), Dialect::Workgen, &none)
        .unwrap_or_else(|e| panic!("{}", e.render(wattif::Look { color: false, width: 120 })));
    let kernel = load::kernel(kernel, &none).expect("built in").value;
    RunSpec { platform, workload: workload.value.workload, kernel, seed: 1, duration: Ns::from_ms(ms) }
}

/// Who ran how long, by task and by group; and panics when a throttled thread runs.
struct Watch {
    parents: Vec<usize>,
    tasks: BTreeMap<Pid, (String, usize)>,
    running: Vec<(Pid, u64)>,
    ran: BTreeMap<String, u64>,
    /// By group, those below included.
    used: Vec<u64>,
    /// Throttled queues: (CPU, group), and since when.
    throttled: BTreeMap<(u32, usize), u64>,
    waited: u64,
    /// Who is being woken.
    waking: Pid,
    /// Migrations of those who are not, to where they are throttled.
    moved_to_wait: u32,
    periods: Vec<(u32, u32)>,
    burst: Vec<u64>,
}

impl Watch {
    fn new(spec: &RunSpec) -> Watch {
        let groups = &spec.workload.groups;
        let up = |path: &str| path.rsplit_once('/').map_or(0, |(up, _)| up.len()).max(1);
        let parent = |path: &str| groups.iter().position(|p| p.path == path[..up(path)]).unwrap();
        let parents = groups.iter().map(|g| parent(&g.path)).collect();
        Watch {
            parents,
            tasks: BTreeMap::new(),
            running: vec![(Pid(0), 0); spec.platform.nr_cpus()],
            ran: BTreeMap::new(),
            used: vec![0; groups.len()],
            throttled: BTreeMap::new(),
            waited: 0,
            waking: Pid(0),
            moved_to_wait: 0,
            periods: vec![(0, 0); groups.len()],
            burst: vec![0; groups.len()],
        }
    }
    fn above(&self, pid: Pid) -> Vec<usize> {
        let mut group = self.tasks.get(&pid).map_or(0, |t| t.1);
        let mut path = vec![group];
        while group != 0 {
            group = self.parents[group];
            path.push(group);
        }
        path
    }
    fn stop(&mut self, cpu: CpuId, at: u64) {
        let (pid, since) = self.running[cpu.at()];
        if pid == Pid(0) {
            return;
        }
        for group in self.above(pid) {
            self.used[group] += at - since;
            if let Some(throttled) = self.throttled.get(&(cpu.0, group)) {
                assert!(
                    at == *throttled || at == since,
                    "{at}: {pid} of group {group} ran {} ns while throttled",
                    at - throttled
                );
            }
        }
        *self.ran.entry(self.tasks[&pid].0.clone()).or_default() += at - since;
    }
    fn share(&self, task: &str) -> f64 {
        let sum: u64 = self.ran.values().sum();
        self.ran.get(task).copied().unwrap_or(0) as f64 / sum as f64
    }
}

impl Observer for Watch {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn thread(&mut self, t: &ThreadInfo) {
        self.tasks.insert(t.pid, (t.task.clone(), 0));
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedSwitch { next_pid, .. } => {
                self.stop(cpu, at.0);
                for group in self.above(next_pid).into_iter().filter(|_| next_pid != Pid(0)) {
                    let key = (cpu.0, group);
                    assert!(!self.throttled.contains_key(&key), "{at}: {next_pid} is throttled with group {group}");
                }
                self.running[cpu.at()] = (next_pid, at.0);
            }
            Event::SchedWaking { pid, .. } => self.waking = pid,
            Event::SchedWakeup { .. } => self.waking = Pid(0),
            Event::SchedMigrateTask { pid, dest_cpu, .. } if self.waking != pid => {
                let throttled = |group: &usize| self.throttled.contains_key(&(dest_cpu.0, *group));
                self.moved_to_wait += u32::from(self.above(pid).iter().any(throttled));
            }
            Event::CgroupAttachTask { pid, group } => {
                // What it ran so far counts to the group it leaves.
                if self.running[cpu.at()].0 == pid {
                    self.stop(cpu, at.0);
                    self.running[cpu.at()].1 = at.0;
                }
                self.tasks.get_mut(&pid).unwrap().1 = group as usize;
            }
            Event::CfsThrottle { group } => {
                assert_eq!(self.throttled.insert((cpu.0, group as usize), at.0), None);
            }
            Event::CfsUnthrottle { group, waited_ns } => {
                let since = self.throttled.remove(&(cpu.0, group as usize)).expect("it was throttled");
                // A switch may go by the clock of the wake-up that led to it.
                assert!(waited_ns <= at.0 - since + 20_000, "{waited_ns} {at} {since}");
                self.waited += waited_ns;
            }
            Event::CfsPeriod { group, periods, throttled, burst_ns } => {
                let (all, bad) = &mut self.periods[group as usize];
                (*all, *bad) = (*all + periods, *bad + if throttled { periods } else { 0 });
                self.burst[group as usize] += burst_ns;
            }
            _ => {}
        }
    }
    fn finish(&mut self, end: Ns) {
        (0..self.running.len()).for_each(|cpu| self.stop(CpuId(cpu as u32), end.0));
    }
}

fn watch(spec: &RunSpec) -> Watch {
    let mut watch = Watch::new(spec);
    run(spec, &mut [&mut watch]).expect("runs");
    watch
}

#[track_caller]
fn near(value: f64, expect: f64, tolerance: f64) {
    assert!((value - expect).abs() <= tolerance, "{value:.4} is not {expect:.4} ± {tolerance}");
}

// ---- weights ---------------------------------------------------------------------------------------------------------

#[test]
fn weights_share_one_cpu() {
    let tasks = r#""a": { "cpus": [1], "taskgroup": "/a", "run": 1000 },
        "b": { "instance": 2, "cpus": [1], "taskgroup": "/b", "run": 1000 }"#;
    let groups = r#""/a": { "cpu.weight": 100 }, "/b": { "cpu.weight": 300 }"#;
    for kernel in KERNELS {
        let seen = watch(&spec("guest_x86_2cpu", kernel, tasks, groups, 4000));
        near(seen.share("a"), 0.25, 0.005);
    }
}

/// Two equal CPUs; the heavy group has as many hogs on each as the light one.
#[test]
fn weights_share_all_cpus() {
    let tasks = r#""a": { "instance": 4, "taskgroup": "/a", "run": 1000 },
        "b": { "instance": 4, "taskgroup": "/b", "run": 1000 }"#;
    let groups = r#""/a": { "cpu.weight": 100 }, "/b": { "cpu.weight": 300 }"#;
    for kernel in KERNELS {
        let seen = watch(&spec("guest_x86_2cpu", kernel, tasks, groups, 5000));
        near(seen.share("a"), 0.25, 0.03);
    }
}

/// Where schedtune is, these groups are its own, and have no shares; one with a file of the cpu controller has.
#[test]
fn groups_of_schedtune_have_no_shares() {
    let hogs = |top: &str| {
        format!(
            r#""a": {{ "cpus": [1], "taskgroup": "{top}", "run": 1000 }},
            "b": {{ "instance": 3, "cpus": [1], "taskgroup": "/foreground/x", "run": 1000 }}"#
        )
    };
    let share = |kernel: &str, top: &str, groups: &str| {
        watch(&spec("guest_x86_2cpu", kernel, &hogs(top), groups, 4000)).share("a")
    };
    for kernel in ["android-4.9", "android-4.9-walt"] {
        near(share(kernel, "/top-app", ""), 0.25, 0.01);
        near(share(kernel, "/top-app", r#""/top-app": { "cpu.weight": 300 }"#), 0.5, 0.01);
        near(share(kernel, "/other", ""), 0.25, 0.01);
    }
    for kernel in ["android-6.6", "linux-6.1"] {
        near(share(kernel, "/top-app", ""), 0.5, 0.01);
    }
}

#[test]
fn nested_weights_multiply() {
    let hog = |name: &str, group: &str| format!(r#""{name}": {{ "cpus": [0], "taskgroup": "{group}", "run": 1000 }}"#);
    let tasks = [hog("ab", "/a/b"), hog("ac", "/a/c"), hog("d", "/d"), hog("r", "/")].join(", ");
    let groups = r#""/a": { "cpu.weight": 200 }, "/a/b": { "cpu.weight": 50 }, "/a/c": { "cpu.weight": 150 }"#;
    for kernel in KERNELS {
        let seen = watch(&spec("guest_x86_2cpu", kernel, &tasks, groups, 6000));
        // Root: a 200, d 100, and the task itself counts as 100.
        near(seen.share("ab"), 0.5 * 0.25, 0.01);
        near(seen.share("ac"), 0.5 * 0.75, 0.01);
        near(seen.share("d"), 0.25, 0.01);
        near(seen.share("r"), 0.25, 0.01);
    }
}

#[test]
fn an_idle_group_gets_what_is_left() {
    for kernel in KERNELS {
        let hogs = r#""idle": { "instance": 2, "cpus": [0], "taskgroup": "/idle", "run": 1000 },
            "hog": { "cpus": [0], "taskgroup": "/app", "run": 1000 }"#;
        let seen = watch(&spec("guest_x86_2cpu", kernel, hogs, r#""/idle": { "cpu.idle": 1 }"#, 4000));
        // 3 of 1027, and at least one turn.
        assert!(seen.share("idle") < 0.012, "{}", seen.share("idle"));
        let light = r#""idle": { "cpus": [0], "taskgroup": "/idle", "run": 1000 },
            "app": { "cpus": [0], "taskgroup": "/app", "run": 3000, "timer": { "ref": "t", "period": 10000 } }"#;
        let seen = watch(&spec("guest_x86_2cpu", kernel, light, r#""/idle": { "cpu.idle": 1 }"#, 2000));
        near(seen.ran["app"] as f64 / 2e9, 0.3, 0.01);
        near(seen.ran["idle"] as f64 / 2e9, 0.7, 0.02);
    }
}

// ---- limits ----------------------------------------------------------------------------------------------------------

#[test]
fn a_limited_group_gets_its_quota() {
    let tasks = r#""a": { "cpus": [0], "taskgroup": "/a", "run": 1000 }, "b": { "cpus": [0], "run": 1000 }"#;
    for kernel in KERNELS {
        let seen = watch(&spec("guest_x86_2cpu", kernel, tasks, r#""/a": { "cpu.max": "20000 100000" }"#, 5000));
        near(seen.ran["a"] as f64 / 5e9, 0.2, 0.01);
        let report =
            run(&spec("guest_x86_2cpu", kernel, tasks, r#""/a": { "cpu.max": "20000 100000" }"#, 5000), &mut []);
        let report = report.expect("runs").report;
        let figure = |name: &str| report.metric(&format!("groups./a.{name}"), None).unwrap();
        near(figure("runtime_s"), seen.ran["a"] as f64 / 1e9, 1e-9);
        near(figure("throttled_s"), seen.waited as f64 / 1e9, 1e-9);
        assert_eq!(figure("nr_throttled"), f64::from(seen.periods[1].1));
        assert!(seen.waited > 2_800 * MS, "{}", seen.waited);
        let (periods, throttled) = seen.periods[1];
        assert!((48..=50).contains(&periods) && throttled >= 48, "{periods} {throttled}");
    }
}

#[test]
fn a_limit_holds_over_all_cpus_and_below() {
    let tasks = r#""a": { "instance": 6, "taskgroup": "/a/x", "run": 1000 }, "b": { "instance": 4, "taskgroup": "/a/y", "run": 1000 }"#;
    let groups = r#""/a": { "cpu.max": "300000 100000" }, "/a/y": { "cpu.max": "50000 50000" }"#;
    for kernel in KERNELS {
        let seen = watch(&spec("guest_x86_8cpu", kernel, tasks, groups, 3000));
        near(seen.used[1] as f64 / 3e9, 3.0, 0.15);
        let y = seen.ran["b"] as f64 / 3e9;
        assert!(y < 1.1 && y > 0.6, "{y}");
    }
}

/// CPUs that idle because their queue is throttled take nobody whose turn there has to wait as well.
#[test]
fn nobody_is_balanced_to_where_it_is_throttled() {
    let tasks = r#""a": { "instance": 5, "taskgroup": "/a", "run": 3000, "sleep": 500 }, "b": { "instance": 2, "run": 700, "sleep": 900 }"#;
    for kernel in KERNELS {
        let seen = watch(&spec("guest_x86_2cpu", kernel, tasks, r#""/a": { "cpu.max": "40000 50000" }"#, 3000));
        assert!(seen.periods[1].1 > 20, "{kernel}: {:?}", seen.periods);
        assert_eq!(seen.moved_to_wait, 0, "{kernel}");
    }
}

/// 64 threads that hardly run each draw a slice of the pool and keep 1 ms of it: it is void after the period up to 5.3.
#[test]
fn slices_of_idle_queues_expire_up_to_5_3() {
    // One after the other.
    let timer = r#""timer": { "ref": "unique", "period": 100000, "mode": "absolute" }"#;
    let one = |c: usize| {
        let delay = 1400 * c;
        format!(r#""t{c}": {{ "cpus": [{c}], "taskgroup": "/a", "delay": {delay}, "loop": -1, "run": 40, {timer} }}"#)
    };
    let tasks: Vec<String> = (0..64).map(one).collect();
    let throttled = |kernel| {
        let spec = spec("xeon_icx", kernel, &tasks.join(", "), r#""/a": { "cpu.max": "40000 100000" }"#, 3000);
        watch(&spec).periods[1].1
    };
    let [old, new] = ["linux-5.3", "linux-5.4"].map(throttled);
    assert!(old > 15 && new < 5, "{old} and {new} periods");
}

#[test]
fn a_burst_is_saved_in_quiet_periods() {
    // 5 ms each 100 ms, and 35 ms in every fourth period: more than the quota, on average much less.
    let tasks = r#""a": { "cpus": [0], "taskgroup": "/a", "phases": {
        "quiet": { "loop": 3, "run": 5000, "timer": { "ref": "t", "period": 100000 } },
        "busy": { "run": 35000, "timer": { "ref": "t", "period": 100000 } } } }"#;
    let without = r#""/a": { "cpu.max": "20000 100000" }"#;
    let with = r#""/a": { "cpu.max": "20000 100000", "cpu.max.burst": 20000 }"#;
    for kernel in KERNELS {
        let seen = |groups| watch(&spec("guest_x86_2cpu", kernel, tasks, groups, 4000));
        let (without, with) = (seen(without), seen(with));
        assert!(without.periods[1].1 >= 9, "{:?}", without.periods);
        assert!(with.periods[1].1 <= 1 && with.burst[1] > 50 * MS, "{:?} {:?}", with.periods, with.burst);
    }
}

#[test]
fn a_group_that_sleeps_stops_its_timer() {
    let tasks = r#""a": { "cpus": [0], "taskgroup": "/a", "run": 1000, "sleep": 900000 }"#;
    let seen = watch(&spec("guest_x86_2cpu", "linux-6.12", tasks, r#""/a": { "cpu.max": "20000 100000" }"#, 9000));
    // Each turn starts it, and it ends after a period without use.
    assert!((10..=40).contains(&seen.periods[1].0), "{:?}", seen.periods);
    assert_eq!(seen.throttled.len(), 0);
}

// ---- clamps ----------------------------------------------------------------------------------------------------------

/// Mean frequency of the first domain, MHz.
fn mean_mhz(platform: &str, tasks: &str, groups: &str) -> u64 {
    let mut spec = spec(platform, "linux-6.12", tasks, groups, 1000);
    spec.platform.noise.housekeeping.clear();
    let report = run(&spec, &mut []).expect("runs").report;
    let rows = &report.domains[0].freq_residency;
    (rows.iter().map(|r| r.khz as f64 * r.s).sum::<f64>() / rows.iter().map(|r| r.s).sum::<f64>() / 1000.0) as u64
}

#[test]
fn clamps_of_groups_act_on_frequency() {
    let light = r#""a": { "cpus": [0], "taskgroup": "/a/b", "run": 100, "sleep": 2000 }"#;
    let hog = r#""a": { "cpus": [0], "taskgroup": "/a/b", "run": 1000 }"#;
    let mhz = |tasks, groups| mean_mhz("hikey620", tasks, groups);
    let (low, high) = (mhz(light, ""), mhz(hog, ""));
    assert!(low < 450 && high > 1000, "{low} {high}");
    let protected = r#""/a": { "cpu.uclamp.min": 100 }, "/a/b": { "cpu.uclamp.min": 100 }"#;
    assert!(mhz(light, protected) > 800, "{}", mhz(light, protected));
    assert_eq!(mhz(light, r#""/a": { "cpu.uclamp.min": 100 }"#), low, "protection is not inherited");
    assert_eq!(mhz(light, r#""/a/b": { "cpu.uclamp.min": 100 }"#), low, "nor more than the group above has");
    assert!(mhz(hog, r#""/a": { "cpu.uclamp.max": 20 }"#) < 450);
    let asks = hog.replace(r#""run""#, r#""util_max": 1024, "run""#);
    assert!(mhz(&asks, r#""/a/b": { "cpu.uclamp.max": 20 }"#) < 450, "asking does not help");
}

/// A real-time task that runs beside clamped ones still runs at full speed.
#[test]
fn real_time_tasks_are_protected_by_default() {
    let rt =
        |more: &str| format!(r#""rt": {{ "cpus": [0], "policy": "SCHED_FIFO", {more} "run": 100, "sleep": 2000 }}"#);
    let clamps = r#""/other": { "cpu.uclamp.max": 90 }"#;
    let mhz = |more: &str, groups| mean_mhz("hikey620", &rt(more), groups);
    let fast = mhz("", "");
    assert!(fast > 700, "{fast}");
    assert_eq!(mhz("", clamps), fast, "with clamps in use somewhere");
    assert!(mhz(r#""util_min": 0,"#, clamps) < 500, "{}", mhz(r#""util_min": 0,"#, clamps));
}

#[test]
fn clamps_of_groups_act_on_placement() {
    let tasks = r#""a": { "taskgroup": "/a", "run": 300, "timer": { "ref": "t", "period": 8000 } }"#;
    let on_big = |groups| {
        let mut spec = spec("hikey960", "linux-6.12", tasks, groups, 500);
        spec.platform.noise.housekeeping.clear();
        let report = run(&spec, &mut []).expect("runs").report;
        let busy = |cpus: std::ops::Range<usize>| report.cpus[cpus].iter().map(|c| c.busy_s).sum::<f64>();
        busy(4..8) / busy(0..8)
    };
    assert!(on_big("") < 0.3, "{}", on_big(""));
    let boosted = on_big(r#""/a": { "cpu.uclamp.min": 90 }"#);
    assert!(boosted > 0.8, "{boosted}");
}

// ---- random trees ----------------------------------------------------------------------------------------------------

/// A group: under which of those before it, its weight, its quota as a part of a CPU, its period, idle.
type Group = (prop::sample::Index, u32, Option<u32>, u32, bool);

fn random_case() -> impl Strategy<Value = RunSpec> {
    let index = any::<prop::sample::Index>;
    let group = (index(), 1u32..600, prop::option::of(3u32..250), 10u32..150, prop::bool::weighted(0.1));
    let task = (index(), 1u32..5, 100u32..9000, 0u32..9000, -5i32..6, prop::bool::weighted(0.3));
    let (groups, tasks) = (prop::collection::vec(group, 1..7), prop::collection::vec(task, 1..7));
    (groups, tasks, 0usize..3, any::<bool>(), 1u64..1000).prop_map(|(groups, tasks, kernel, many, seed)| {
        let mut paths = vec![String::new()];
        for (i, (parent, ..)) in groups.iter().enumerate() {
            paths.push(format!("{}/g{i}", parent.get(&paths)));
        }
        let file = |(path, (_, weight, quota, period, idle)): (&String, &Group)| {
            let max = quota.map_or("max".into(), |q| ((q * period * 10).max(1000)).to_string());
            let (max, idle) = (format!("{max} {}", period * 1000), u32::from(*idle));
            format!(r#""{path}": {{ "cpu.weight": {weight}, "cpu.max": "{max}", "cpu.idle": {idle} }}"#)
        };
        let groups: Vec<String> = paths[1..].iter().zip(&groups).map(file).collect();
        let task = |(i, (group, n, run, sleep, nice, pinned)): (usize, &(prop::sample::Index, u32, u32, u32, i32, bool))| {
            let (path, cpus) = (group.get(&paths), if *pinned { r#""cpus": [0],"# } else { "" });
            let path = if path.is_empty() { "/" } else { path };
            let sleep = if *sleep < 2000 { String::new() } else { format!(r#", "sleep": {sleep}"#) };
            format!(r#""t{i}": {{ "instance": {n}, "priority": {nice}, {cpus} "taskgroup": "{path}", "run": {run}{sleep} }}"#)
        };
        let tasks: Vec<String> = tasks.iter().enumerate().map(task).collect();
        let platform = if many { "guest_x86_8cpu" } else { "guest_x86_2cpu" };
        let spec = spec(platform, KERNELS[kernel], &tasks.join(", "), &groups.join(", "), 1500);
        RunSpec { seed, ..spec }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    /// Throttled threads do not run (see [`Watch`]), and no group uses more than its quota: what its periods brought, and on
    /// each CPU what a tick can overrun.
    #[test]
    fn limits_hold_on_random_trees(spec in random_case()) {
        let seen = watch(&spec);
        let nr_cpus = spec.platform.nr_cpus() as u64;
        let tick = 1_000_000_000 / u64::from(spec.platform.hz);
        for (g, group) in spec.workload.groups.iter().enumerate() {
            let Some(quota) = group.quota else { continue };
            let periods = spec.duration.0 / group.period.0 + 2;
            let most = quota.0 * periods + nr_cpus * (tick + MS / 10);
            prop_assert!(seen.used[g] <= most, "{}: {} of {most}", group.path, seen.used[g]);
        }
    }
}
