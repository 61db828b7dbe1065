//! `openmp`: a parallel program: regions whose loop is shared by a team of threads, with a barrier at each end.
//!
//! The main thread creates the team at the first region, as run-time libraries do; every region begins and ends for all
//! threads together. The loop's iterations are shared by its schedule: `static` gives every thread its part beforehand,
//! `dynamic` lets each take a chunk when it has finished its last, `guided` does so with chunks that shrink with what is
//! left. Who waits spins first, and sleeps when that took long. `frames.region` is the time of a region, `frames.total` that
//! of the program, from the moment its parent waits for it.
//!
//! The spin is libgomp's: a count of looks, none for `passive`, and a tiny one when there are more threads than CPUs. A spinning
//! team is gathered and released by its first thread; libgomp's last thread does that, which differs by a wake-up.

use super::dist::Dist;
use super::models::{CPUS, Model, Param, Params};
use super::server::task;
use super::{
    Amount, BarrierSpec, Chunk, CounterSpec, GroupSpec, Op, QueueSpec, SchedAttr, SemaphoreSpec, TaskSpec, Workload,
};

/// The model.
pub const MODEL: Model = Model {
    name: "openmp",
    title: "a parallel program: regions with static, dynamic or guided loops, and spinning or sleeping at barriers",
    params: &[
        CPUS,
        Param {
            name: "workers",
            default: "cpus",
            range: Some((1, 1024)),
            words: &["cpus"],
            doc: "threads of the team, the main one included; cpus: one for each",
        },
        Param {
            name: "schedule",
            default: "dynamic",
            range: None,
            words: &["static", "dynamic", "guided"],
            doc: "who executes which iterations",
        },
        Param {
            name: "chunk",
            default: "default",
            range: Some((1, 1_000_000)),
            words: &["default"],
            doc: "iterations taken at once; by default 1, and one equal part each for static",
        },
        Param {
            name: "wait",
            default: "default",
            range: None,
            words: &["default", "active", "passive"],
            doc: "OMP_WAIT_POLICY: spin for about a millisecond and sleep, spin for minutes, sleep at once",
        },
        Param { name: "regions", default: "10", range: Some((1, 100_000)), words: &[], doc: "parallel regions" },
        Param {
            name: "iterations",
            default: "1000",
            range: Some((1, 1_000_000)),
            words: &[],
            doc: "iterations of a region",
        },
        Param {
            name: "iteration_us",
            default: "1400",
            range: Some((1, 10_000_000)),
            words: &[],
            doc: "work of an iteration at full speed",
        },
        Param {
            name: "serial_us",
            default: "200",
            range: Some((0, 10_000_000)),
            words: &[],
            doc: "work of the main thread alone before each region",
        },
        Param {
            name: "background",
            default: "0",
            range: Some((0, 1024)),
            words: &[],
            doc: "background tasks beside the program: 2 ms of work about every 20 ms each",
        },
    ],
    source: include_str!("openmp.rs"),
    build,
};

/// One look of a spinning thread, ns: a pause instruction and a load (estimated).
const LOOK_NS: u64 = 4;

/// Marks.
const REGION: u32 = 0;
const TOTAL: u32 = 1;
/// Queues: the team is released, a thread has arrived.
const GO: u32 = 0;
const ARRIVED: u32 = 1;

/// Counters besides that of iterations.
const BACKGROUND: u32 = 1;
/// More pieces of background work than any run has.
pub(super) const ENDLESS: u64 = 1 << 60;

/// How a team waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// A barrier in the kernel.
    Sleep,
    /// So many ns of looking, then sleep.
    Spin(u64),
}

fn wait(policy: &str, crowded: bool) -> Wait {
    match (policy, crowded) {
        ("passive", _) => Wait::Sleep,
        ("active", false) => Wait::Spin(30_000_000_000 * LOOK_NS),
        ("active", true) => Wait::Spin(1_000 * LOOK_NS),
        (_, false) => Wait::Spin(300_000 * LOOK_NS),
        (_, true) => Wait::Spin(100 * LOOK_NS),
    }
}

/// Iterations of each thread under `static`: chunks in turn, by default one part each that differ by one at most.
fn shares(iterations: u64, workers: u64, chunk: Option<u64>) -> Vec<u64> {
    let Some(chunk) = chunk else {
        return (0..workers).map(|t| iterations / workers + u64::from(t < iterations % workers)).collect();
    };
    let mut shares = vec![0; workers as usize];
    let mut left = iterations;
    for turn in 0..iterations.div_ceil(chunk) {
        let part = chunk.min(left);
        shares[(turn % workers) as usize] += part;
        left -= part;
    }
    shares
}

/// The team's program text, thread by thread.
struct Team {
    workers: u64,
    regions: u64,
    wait: Wait,
    schedule: Schedule,
    iteration_ns: u64,
}

enum Schedule {
    /// Iterations by thread.
    Static(Vec<u64>),
    Shared(Chunk),
}

impl Team {
    /// The loop of a region, for thread `t`, at position `at` of its program.
    fn body(&self, t: u64, at: u32) -> Vec<Op> {
        match &self.schedule {
            Schedule::Static(shares) => vec![Op::Run(Amount::Fixed(shares[t as usize] * self.iteration_ns))],
            Schedule::Shared(chunk) => vec![
                Op::TakeWork {
                    counter: 0,
                    chunk: *chunk,
                    per_iteration: Amount::Fixed(self.iteration_ns),
                    done: at + 2,
                },
                Op::Jump(at),
            ],
        }
    }

    /// `ops` for every region.
    fn each_region(&self, begin: u32, ops: Vec<Op>) -> Vec<Op> {
        let mut all = vec![Op::Loop { count: Some(self.regions), end: begin + ops.len() as u32 + 1 }];
        all.extend(ops);
        all.push(Op::LoopEnd { begin });
        all
    }

    fn worker(&self, t: u64) -> Vec<Op> {
        let (go, arrived) = match self.wait {
            Wait::Sleep => (Op::Barrier(0), Op::Barrier(0)),
            Wait::Spin(ns) => {
                let go = Op::SpinThenBlock { spin: Amount::Fixed(ns), queue: GO };
                // With the stamp of the release: the gathering thread's mark tells from there.
                (go, Op::Put { queue: ARRIVED, forward: true })
            }
        };
        let mut ops = vec![go];
        ops.extend(self.body(t, 2));
        ops.push(arrived);
        self.each_region(0, ops)
    }

    /// The first thread: creates the others, and is alone between regions. `workers[i]` is the task of thread i + 1.
    fn main(&self, serial_ns: u64, workers: &[u32]) -> Vec<Op> {
        let mut ops: Vec<Op> = workers.iter().map(|w| Op::Fork(*w)).collect();
        let begin = ops.len() as u32;
        let others = workers.len();
        let mut region = Vec::new();
        if serial_ns > 0 {
            region.push(Op::Run(Amount::Fixed(serial_ns)));
        }
        region.extend([Op::MarkBegin, Op::ResetWork(0)]);
        match self.wait {
            Wait::Sleep => region.push(Op::Barrier(0)),
            Wait::Spin(_) => region.extend(vec![Op::Put { queue: GO, forward: false }; others]),
        }
        region.extend(self.body(0, begin + 1 + region.len() as u32));
        match self.wait {
            Wait::Sleep => region.push(Op::Barrier(0)),
            Wait::Spin(ns) => {
                region.extend(vec![Op::SpinThenBlock { spin: Amount::Fixed(ns), queue: ARRIVED }; others]);
            }
        }
        region.push(Op::Mark(REGION));
        ops.extend(self.each_region(begin, region));
        // What is left for the background is taken away.
        let done = ops.len() as u32 + 1;
        ops.push(Op::TakeWork {
            counter: BACKGROUND,
            chunk: Chunk::Fixed(ENDLESS),
            per_iteration: Amount::Fixed(0),
            done,
        });
        ops.push(Op::SemPost(0));
        ops
    }

    /// The tasks of the other threads, those with the same share together, and for each thread after the first its task.
    fn others(&self, first_task: u32) -> (Vec<TaskSpec>, Vec<u32>) {
        let Schedule::Static(shares) = &self.schedule else {
            let others = vec![first_task; self.workers as usize - 1];
            let one = others.first().map(|_| template("worker", self.worker(1)));
            return (one.into_iter().collect(), others);
        };
        let mut kinds: Vec<u64> = Vec::new();
        let mut of = Vec::new();
        let mut tasks = Vec::new();
        for (t, share) in shares.iter().enumerate().skip(1) {
            let kind = kinds.iter().position(|k| k == share).unwrap_or_else(|| {
                kinds.push(*share);
                let name = if tasks.is_empty() { "worker".to_string() } else { format!("worker_of_{share}") };
                tasks.push(template(&name, self.worker(t as u64)));
                kinds.len() - 1
            });
            of.push(first_task + kind as u32);
        }
        (tasks, of)
    }
}

/// A task of which threads are forked only.
fn template(name: &str, ops: Vec<Op>) -> TaskSpec {
    task(name, 0, SchedAttr::default(), ops)
}

/// Short pieces of work at random times, until the counter is emptied.
pub(super) fn background(instances: u64, counter: u32) -> TaskSpec {
    let pause = Op::Sleep(Amount::Random(Dist::Exponential { mean: 18_000_000 }));
    let work = Amount::Random(Dist::Exponential { mean: 2_000_000 });
    let ops = vec![pause, Op::TakeWork { counter, chunk: Chunk::Fixed(1), per_iteration: work, done: 3 }, Op::Jump(0)];
    task("background", instances, SchedAttr::default(), ops)
}

fn build(p: &Params) -> Workload {
    let (workers, iterations) = (p.int("workers"), p.int("iterations"));
    let chunk = p.maybe_int("chunk");
    let min = chunk.unwrap_or(1);
    let schedule = match p.word("schedule") {
        "static" => Schedule::Static(shares(iterations, workers, chunk)),
        "guided" => Schedule::Shared(Chunk::Guided { parties: workers as u32, min }),
        _ => Schedule::Shared(Chunk::Fixed(min)),
    };
    let wait = wait(p.word("wait"), workers > p.int("cpus"));
    let team = Team { workers, regions: p.int("regions"), wait, schedule, iteration_ns: p.int("iteration_us") * 1000 };
    // Tasks 0 and 1 are the program and its main thread.
    let (others, of) = team.others(2);
    let mut tasks = vec![
        task("program", 1, SchedAttr::default(), vec![Op::MarkBegin, Op::SemWait(0), Op::Mark(TOTAL)]),
        task("main", 1, SchedAttr::default(), team.main(p.int("serial_us") * 1000, &of)),
    ];
    tasks.extend(others);
    if p.int("background") > 0 {
        tasks.push(background(p.int("background"), BACKGROUND));
    }
    Workload {
        name: MODEL.name.into(),
        duration: None,
        tasks,
        barriers: vec![BarrierSpec { name: "team".into(), parties: workers as u32 }],
        semaphores: vec![SemaphoreSpec::new("ended", 0)],
        counters: vec![
            CounterSpec { name: "iterations".into(), total: iterations },
            CounterSpec { name: "background".into(), total: ENDLESS },
        ],
        queues: ["go", "arrived"].map(QueueSpec::new).into(),
        marks: vec!["region".into(), "total".into()],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(set: &[(&str, &str)]) -> Result<Workload, Vec<String>> {
        let set: Vec<_> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        MODEL.workload(&set)
    }

    #[test]
    fn shares_of_a_static_loop() {
        assert_eq!(shares(10, 4, None), [3, 3, 2, 2]);
        assert_eq!(shares(10, 4, Some(3)), [3, 3, 3, 1]);
        assert_eq!(shares(10, 2, Some(3)), [6, 4]);
        assert_eq!(shares(3, 5, None), [1, 1, 1, 0, 0]);
        assert_eq!(shares(1000, 5, Some(1)), [200; 5]);
    }

    #[test]
    fn one_worker_per_cpu_unless_said_otherwise() {
        let forks = |set: &[(&str, &str)]| {
            let w = built(set).unwrap();
            w.tasks[1].program.ops.iter().filter(|op| matches!(op, Op::Fork(_))).count()
        };
        assert_eq!(forks(&[("cpus", "5")]), 4);
        assert_eq!(forks(&[("cpus", "5"), ("workers", "8")]), 7);
        assert_eq!(forks(&[("workers", "1")]), 0);
        let w = built(&[("cpus", "4"), ("schedule", "static"), ("iterations", "10")]).unwrap();
        let names: Vec<&str> = w.tasks.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["program", "main", "worker", "worker_of_2"]);
    }

    #[test]
    fn spinning_by_policy() {
        assert_eq!(wait("default", false), Wait::Spin(1_200_000));
        assert_eq!(wait("default", true), Wait::Spin(400), "more threads than CPUs");
        assert_eq!(wait("passive", false), Wait::Sleep);
        assert_eq!(wait("active", false), Wait::Spin(120_000_000_000));
    }

    #[test]
    fn mistakes_name_what_is_allowed() {
        for (name, value, part) in [
            ("workers", "0", "1..=1024"),
            ("workers", "10000", "1..=1024"),
            ("workers", "many", "or cpus"),
            ("chunk", "0", "1..=1000000"),
            ("schedule", "auto", "static, dynamic, guided"),
            ("wait", "yes", "default, active, passive"),
        ] {
            let why = built(&[(name, value)]).unwrap_err();
            assert!(why.len() == 1 && why[0].contains(part) && why[0].contains(value), "{why:?}");
        }
    }
}
