//! Who queues a woken thread: the waker, or the CPU that it is to run on.

mod runs;

use runs::under;
use wattif::run::Simulator;
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{Event, Interest, Observer};
use wattif_model::{CpuId, Ns, Pid};

/// A waker on CPU 0, three threads that it wakes together every 20 ms; the machine has CPUs 0 to 3 and 4 to 7, two caches.
fn spec(kernel: &str, set: &[&str], cpus: [u32; 3], hog: &str) -> RunSpec {
    let [a, b, c] = cpus.map(|cpu| format!(r#"{{ "cpus": [{cpu}], "loop": -1, "barrier": "all", "run": 100 }}"#));
    let text = format!(
        r#"{{ "tasks": {{ "a": {a}, "b": {b}, "c": {c}, {hog}
            "waker": {{ "cpus": [0], "loop": -1, "run": 300, "barrier": "all",
                "timer": {{ "ref": "t", "period": 20000, "mode": "absolute" }} }} }} }}"#
    );
    let mut spec = under("hikey960", kernel, &text, set);
    // Nobody else, who might keep a CPU awake.
    spec.platform.noise.housekeeping.clear();
    spec
}

/// What became of one wake-up.
#[derive(Clone, Copy, Debug, Default)]
struct Wake {
    pid: u32,
    /// Queued so long after it was woken, and on which CPU that was done.
    queued: (u64, u32),
    /// It ran so long after it was queued.
    waited: u64,
}

/// The wake-ups of threads 1 to 3, in the order in which they were queued.
#[derive(Default)]
struct Wakes {
    woken: [Ns; 4],
    queued: [Option<(Ns, CpuId)>; 4],
    /// Threads as they were woken, and as they were queued.
    orders: [Vec<u32>; 2],
    /// Where they were placed.
    placed: Vec<u32>,
    done: Vec<Wake>,
}

impl Observer for Wakes {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        let ours = |pid: Pid| (1..=3).contains(&pid.0).then_some(pid.at());
        match *event {
            Event::SchedWaking { pid, .. } if ours(pid).is_some() => {
                self.woken[pid.at()] = at;
                self.orders[0].push(pid.0);
            }
            Event::Placement(p) if ours(p.pid).is_some() => self.placed.push(p.cpu.0),
            Event::SchedWakeup { pid, .. } if ours(pid).is_some() => {
                self.queued[pid.at()] = Some((at, cpu));
                self.orders[1].push(pid.0);
            }
            Event::SchedSwitch { next_pid, .. } if ours(next_pid).is_some() => {
                if let Some((queued, by)) = self.queued[next_pid.at()].take() {
                    let queued_ns = queued.since(self.woken[next_pid.at()]);
                    self.done.push(Wake { pid: next_pid.0, queued: (queued_ns, by.0), waited: at.since(queued) });
                }
            }
            _ => {}
        }
    }
}

fn wakes(spec: &RunSpec) -> Wakes {
    let mut wakes = Wakes::default();
    Simulator.run(spec, &mut [&mut wakes]).expect("runs");
    assert!(wakes.done.len() >= 30, "{:?}", wakes.done);
    wakes
}

/// The CPU that queued a thread, the same for all its wake-ups but the first.
fn by(wakes: &Wakes, pid: u32) -> u32 {
    let by: Vec<u32> = wakes.done.iter().filter(|w| w.pid == pid).map(|w| w.queued.1).skip(1).collect();
    assert!(by.windows(2).all(|w| w[0] == w[1]), "{by:?}");
    by[0]
}

#[test]
fn an_idle_cpu_queues_its_thread_itself_since_6_0_and_one_of_another_cache_always() {
    for (kernel, own) in [("linux-3.13", 0), ("linux-5.6", 0), ("linux-6.1", 1), ("linux-6.12", 1), ("android-6.6", 1)]
    {
        let w = wakes(&spec(kernel, &[], [1, 4, 0], ""));
        assert_eq!([1, 2, 3].map(|pid| by(&w, pid)), [own, 4, 0], "{kernel}");
        let w = wakes(&spec(kernel, &["features.TTWU_QUEUE=false"], [1, 4, 0], ""));
        assert_eq!([1, 2, 3].map(|pid| by(&w, pid)), [0, 0, 0], "{kernel}");
    }
}

/// The way out of an idle state is no time on a queue: nobody waits there for another thread.
#[test]
fn a_thread_on_the_list_is_runnable_for_nobody() {
    let sums = |set: &[&str]| {
        let w = wakes(&spec("linux-6.12", set, [1, 4, 5], ""));
        let sum = |f: fn(&Wake) -> u64| w.done.iter().map(f).sum::<u64>();
        (sum(|w| w.queued.0), sum(|w| w.waited))
    };
    let ((listed, waited), (none, all)) =
        (sums(&[]), sums(&["ttwu_queue.generation=5.7", "features.TTWU_QUEUE=false"]));
    assert!(none == 0 && listed > 10 * waited, "{listed} {waited} {none}");
    assert!(all.abs_diff(listed + waited) < all / 10, "{all} of {listed} and {waited}");
}

#[test]
fn the_newest_came_first_up_to_5_7() {
    for (kernel, reversed) in [("linux-5.7", true), ("linux-6.1", false)] {
        let [mut woken, queued] = wakes(&spec(kernel, &[], [4, 4, 4], "")).orders;
        if reversed {
            woken.chunks_exact_mut(3).for_each(<[u32]>::reverse);
        }
        // The first round is of threads that begin.
        assert_eq!(woken[3..], queued[3..], "{kernel}");
    }
}

#[test]
fn a_busy_cpu_of_another_cache_is_interrupted() {
    let hog = r#""hog": { "cpus": [4], "policy": "SCHED_BATCH", "loop": -1, "run": 10000 },"#;
    for kernel in ["linux-5.6", "linux-6.12"] {
        let w = wakes(&spec(kernel, &[], [4, 1, 1], hog));
        assert_eq!(by(&w, 1), 4, "{kernel}");
        let late = w.done.iter().filter(|w| w.pid == 1).map(|w| w.queued.0).max().unwrap();
        assert!((1..50_000).contains(&late), "{late}");
    }
}

/// Threads that are woken while a CPU is on its way out of its sleep are not seen there by energy-aware placement.
#[test]
fn threads_woken_together_are_packed_on_one_sleeping_cpu() {
    let text = r#"{ "tasks": {
        "worker": { "instance": 3, "loop": -1, "barrier": "all", "run": 1000 },
        "waker": { "loop": -1, "run": 300, "barrier": "all",
            "timer": { "ref": "t", "period": 20000, "mode": "absolute" } } } }"#;
    let packed = |set: &[&str]| {
        let w = wakes(&RunSpec { duration: Ns::from_ms(2000), ..under("pixel6", "android-6.6", text, set) });
        w.placed.chunks_exact(3).skip(10).filter(|p| p[0] == p[1] && p[1] == p[2]).count()
    };
    let (listed, seen) = (packed(&[]), packed(&["ttwu_queue.generation=5.7"]));
    assert!(listed > seen + 5, "{listed} {seen}");
}
