//! `antutu`: Antutu 6, tests of everything in a phone that compute or draw for seconds, one after another.
//!
//! The application starts a test, waits until its threads have done their work, and loads the next one. As in its sixth
//! version there are: a scene in 3D (drawn off the screen as fast as the GPU can, two buffers), the tests called UX
//! (encryption, sorting, a game tree, a picture: one thread, which reads its next data from storage every quarter of a
//! second), of the CPU the mathematics, common use (a third of it is waiting for memory) and all cores (a thread for each
//! CPU, which take pieces until none is left), and RAM. A test's score is the inverse of its time. Mark `part` is every
//! test, and each has a mark of its own name. A scene has one frame at least. Nobody touches the screen.
//!
//! Sources: names and order of the tests are those that its result page shows, not checked against a copy of it; that
//! version 6 brought the tests UX and a scene of Unity 5 is in the news of December 2015. What its threads do no source
//! says: GeekBench's class of long hogs, with short gaps. Calibrated: nothing. All times were chosen before any comparison
//! and are the same for every kernel: a test is long (`part_ms`, 10 s of a big CPU of 2017, where the whole benchmark takes
//! some minutes), a frame is one of 40 a second, and needs a quarter of that time of a little CPU.

use super::dist::Dist;
use super::frames::{nice, repeat};
use super::models::{CPUS, Model, Params, number, word};
use super::server::task;
use super::{Amount, Chunk, CounterSpec, DeviceSpec, GroupSpec, Op, SemaphoreSpec, TaskSpec, Workload};

/// The model.
pub const MODEL: Model = Model {
    name: "antutu",
    title: "Antutu 6: tests that compute or draw for seconds, one after another; a score is 1 / time of a test",
    params: &[
        CPUS,
        word("test", &["all", "3d", "ux", "mathematics", "common_use", "multi_core", "ram"], "which of its tests"),
        number(
            "part_ms",
            "24000",
            (10, 1_000_000),
            "work of a test at full speed of the platform's calibration CPU: ux, mathematics, common_use; so much for each CPU in \
             multi_core, a quarter of it in ram; 3d has as many frames as the GPU draws in half of that time",
        ),
        number("gap_ms", "500", (1, 100_000), "until the next test is loaded"),
    ],
    source: include_str!("antutu.rs"),
    build,
};

/// In the order in which they run.
const TESTS: [&str; 6] = ["3d", "ux", "mathematics", "common_use", "multi_core", "ram"];

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Time of the GPU for a frame, and work of the thread that issues its commands.
const GPU_MS: u64 = 25;
const RENDER_MS: u64 = 6;
/// Work on the data of one read, and the read.
const DATA_MS: u64 = 250;
const READ_MS: u64 = 5;
/// Length of a piece of other work.
const PIECE_MS: u64 = 10;
/// Frames of a scene that may be begun.
const BUFFERS: u32 = 2;
/// σ of the logarithm of what varies, in 1/1000: estimated.
const SIGMA_MILLI: u32 = 200;

/// Semaphores: the application waits for threads that are done; the scene's two; then one for each test to begin.
const DONE: u32 = 0;
const FREE: u32 = 1;
const DRAWN: u32 = 2;
const BEGIN: u32 = 3;
const GPU: u32 = 0;
const STORAGE: u32 = 1;

/// A test, and the tasks that wait for its beginning.
struct Test {
    name: &'static str,
    tasks: Vec<TaskSpec>,
}

fn around(ms: u64) -> Amount {
    Amount::Random(Dist::LogNormal { median: ms * MS, sigma_milli: SIGMA_MILLI })
}

/// A thread that waits for its beginning, does `body` `count` times and tells that it is done.
fn worker(name: &str, threads: u64, begin: u32, count: u64, body: Vec<Op>) -> TaskSpec {
    let mut ops = vec![Op::SemWait(begin)];
    ops.extend(repeat(1, count.max(1), body));
    ops.push(Op::SemPost(DONE));
    task(name, threads, nice(0), ops)
}

/// One thread draws with two buffers, and the GPU is who is waited for.
fn scene(p: &Params, begin: u32) -> Vec<TaskSpec> {
    let frames = p.int("part_ms") / 2 / GPU_MS;
    let draw = vec![Op::SemWait(FREE), Op::Run(around(RENDER_MS)), Op::SemPost(DRAWN)];
    let show = vec![Op::SemWait(DRAWN), Op::Device { device: GPU, service: around(GPU_MS) }, Op::SemPost(FREE)];
    vec![worker("render", 1, begin, frames, draw), worker("gpu", 1, begin, frames, show)]
}

/// Threads that take pieces of one heap of work until nothing is left of it.
fn all_cores(p: &Params, begin: u32) -> TaskSpec {
    let per_iteration = Amount::Fixed(PIECE_MS * MS);
    let take = Op::TakeWork { counter: 0, chunk: Chunk::Fixed(1), per_iteration, done: 3 };
    task("core", p.int("cpus"), nice(0), vec![Op::SemWait(begin), take, Op::Jump(1), Op::SemPost(DONE)])
}

fn test(p: &Params, name: &'static str, begin: u32) -> Test {
    let pieces = p.int("part_ms") / PIECE_MS;
    let run = |us: u64| Op::Run(Amount::Fixed(us * US));
    let memory = |us: u64| Op::RunInsensitive(Amount::Fixed(us * US));
    let tasks = match name {
        "3d" => scene(p, begin),
        "ux" => {
            let read = Op::Device { device: STORAGE, service: around(READ_MS) };
            let piece_ms = p.int("part_ms").min(DATA_MS);
            vec![worker(name, 1, begin, p.int("part_ms") / piece_ms, vec![read, Op::Run(around(piece_ms))])]
        }
        "mathematics" => vec![worker(name, 1, begin, pieces, vec![run(10_000)])],
        "common_use" => vec![worker(name, 1, begin, pieces * 10, vec![run(667), memory(333)])],
        "multi_core" => vec![all_cores(p, begin)],
        _ => vec![worker(name, 1, begin, pieces * 10 / 4, vec![run(200), memory(800)])],
    };
    Test { name, tasks }
}

/// The application: for each test, its gap, its beginning and its end.
fn application(p: &Params, tests: &[Test]) -> TaskSpec {
    let mut ops = Vec::new();
    for (i, test) in (0..).zip(tests) {
        let threads = test.tasks.iter().map(|t| t.instances as usize).sum();
        ops.extend([Op::Sleep(Amount::Fixed(p.int("gap_ms") * MS)), Op::MarkBegin]);
        ops.extend(vec![Op::SemPost(BEGIN + i); threads]);
        ops.extend(vec![Op::SemWait(DONE); threads]);
        ops.extend([Op::Mark(0), Op::Mark(1 + i)]);
    }
    task("antutu", 1, nice(-4), ops)
}

fn build(p: &Params) -> Workload {
    let chosen = TESTS.iter().filter(|name| ["all", name].contains(&p.word("test")));
    let tests: Vec<Test> = (BEGIN..).zip(chosen).map(|(begin, name)| test(p, name, begin)).collect();
    let mut semaphores =
        vec![SemaphoreSpec::new("done", 0), SemaphoreSpec::new("free", BUFFERS), SemaphoreSpec::new("drawn", 0)];
    semaphores.extend(tests.iter().map(|t| SemaphoreSpec::new(t.name, 0)));
    let device = |name: &str, iowait| DeviceSpec { name: name.into(), servers: 1, iowait };
    let mut marks = vec!["part".to_string()];
    marks.extend(tests.iter().map(|t| t.name.to_string()));
    let shared = tests.iter().any(|t| t.name == "multi_core");
    let pieces = || CounterSpec { name: "pieces".into(), total: p.int("cpus") * p.int("part_ms") / PIECE_MS };
    let counters = shared.then(pieces).into_iter().collect();
    let mut tasks = vec![application(p, &tests)];
    tasks.extend(tests.into_iter().flat_map(|t| t.tasks));
    Workload {
        name: MODEL.name.into(),
        duration: None,
        tasks,
        semaphores,
        devices: vec![device("gpu", false), device("storage", true)],
        counters,
        marks,
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: &[(&str, &str)]) -> Workload {
        let set: Vec<_> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        MODEL.workload(&set).unwrap()
    }

    #[test]
    fn everybody_who_waits_for_a_beginning_gets_one_and_tells_the_end() {
        for test in ["all"].into_iter().chain(TESTS) {
            let w = with(&[("test", test), ("cpus", "3"), ("part_ms", "10")]);
            assert!(w.ends_by_itself(), "{test}");
            let count = |op: Op| -> u32 {
                let in_task = |t: &TaskSpec| t.program.ops.iter().filter(|o| **o == op).count() as u32 * t.instances;
                w.tasks.iter().map(in_task).sum()
            };
            for i in 0..w.semaphores.len() as u32 {
                if i == DONE || i >= BEGIN {
                    assert_eq!(
                        count(Op::SemPost(i)),
                        count(Op::SemWait(i)),
                        "{test}: {}",
                        w.semaphores[i as usize].name
                    );
                }
            }
            assert_eq!(w.marks.len(), if test == "all" { 7 } else { 2 });
        }
    }

    #[test]
    fn a_test_is_as_long_as_it_says() {
        let of = |test: &str, part_ms: &str| -> u64 {
            let w = with(&[("test", test), ("part_ms", part_ms), ("cpus", "4")]);
            let Op::Loop { count: Some(count), .. } = w.tasks[1].program.ops[1] else {
                return w.counters[0].total * PIECE_MS;
            };
            let work = |op: &Op| match op {
                Op::Run(Amount::Fixed(ns)) | Op::RunInsensitive(Amount::Fixed(ns)) => *ns,
                Op::Run(Amount::Random(Dist::LogNormal { median, .. })) => *median,
                _ => 0,
            };
            count * w.tasks[1].program.ops.iter().map(work).sum::<u64>() / MS
        };
        let each = ["3d", "ux", "mathematics", "common_use", "multi_core", "ram"].map(|test| of(test, "1000"));
        assert_eq!(each, [1000 / 2 / GPU_MS * RENDER_MS, 1000, 1000, 1000, 4000, 250]);
        assert_eq!(["10", "100", "499"].map(|part_ms| of("ux", part_ms)), [10, 100, 250], "in whole pieces");
    }
}
