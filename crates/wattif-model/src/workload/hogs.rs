//! `hogs`: commands typed one after another, each starting threads that only compute.
//!
//! A shell waits for a line from its terminal, whose interrupt comes to the first CPU, creates the threads of the command,
//! and waits for them to end. `frames.run` is the time of each thread, from when it was created until its work is done;
//! where it was put by the kernel, and whether it was moved, decides that time on a machine of fast and slow CPUs.
//!
//! Sources: the scenario of "[6/11] issue 6: Poor and non-deterministic performance on heterogeneous systems" (linux-pm, 20
//! December 2013): commands that only compute, one alone or one for each CPU. Nothing is calibrated.

use super::dist::Dist;
use super::models::{CPUS, Model, Param, Params};
use super::openmp::{ENDLESS, background};
use super::server::task;
use super::{Amount, CounterSpec, DeviceSpec, GroupSpec, Op, QueueSpec, SchedAttr, SemaphoreSpec, TaskSpec, Workload};

/// The model.
pub const MODEL: Model = Model {
    name: "hogs",
    title: "commands that only compute, started one after another by a shell",
    params: &[
        CPUS,
        Param { name: "tasks", default: "1", range: Some((1, 1024)), words: &["cpus"], doc: "threads of a command" },
        Param {
            name: "runs",
            default: "1",
            range: Some((1, 1024)),
            words: &[],
            doc: "commands; no more than 1024 threads in all",
        },
        Param {
            name: "work_ms",
            default: "2000",
            range: Some((1, 10_000_000)),
            words: &[],
            doc: "work of a thread at full speed of the platform's calibration CPU",
        },
        Param {
            name: "memory_pct",
            default: "0",
            range: Some((0, 100)),
            words: &[],
            doc: "part of it that takes as long on any CPU at any clock (memory)",
        },
        Param {
            name: "think_ms",
            default: "100",
            range: Some((1, 1_000_000)),
            words: &[],
            doc: "mean time until the next line is typed",
        },
        Param {
            name: "background",
            default: "0",
            range: Some((0, 1024)),
            words: &[],
            doc: "background tasks beside: 2 ms of work about every 20 ms each",
        },
    ],
    source: include_str!("hogs.rs"),
    build,
};

/// Work of the shell to start a command: fork and exec (estimated).
const START_NS: u64 = 1_000_000;
/// Work of a thread alternates in pieces of this length between computing and waiting for memory.
const PIECE_NS: u64 = 1_000_000;

fn hog(p: &Params) -> TaskSpec {
    let memory = PIECE_NS * p.int("memory_pct") / 100;
    let mut piece = Vec::new();
    if memory < PIECE_NS {
        piece.push(Op::Run(Amount::Fixed(PIECE_NS - memory)));
    }
    if memory > 0 {
        piece.push(Op::RunInsensitive(Amount::Fixed(memory)));
    }
    // Its creation is its begin: the stamp of the token that the shell put for it.
    let mut ops = vec![Op::Get(0), Op::Loop { count: Some(p.int("work_ms")), end: piece.len() as u32 + 2 }];
    ops.extend(piece);
    ops.extend([Op::LoopEnd { begin: 1 }, Op::Mark(0), Op::SemPost(0)]);
    task("hog", 0, SchedAttr::default(), ops)
}

/// `hog` is the index of the command's task.
fn shell(p: &Params, hog: u32) -> TaskSpec {
    let tasks = p.int("tasks") as usize;
    let think = Amount::Random(Dist::Exponential { mean: p.int("think_ms") * 1_000_000 });
    let mut command = vec![Op::Device { device: 0, service: think }, Op::Run(Amount::Fixed(START_NS))];
    for _ in 0..tasks {
        command.extend([Op::Put { queue: 0, forward: false }, Op::Fork(hog)]);
    }
    command.extend(vec![Op::SemWait(0); tasks]);
    let end = command.len() as u32 + 1;
    let mut ops = vec![Op::Loop { count: Some(p.int("runs")), end }];
    ops.extend(command);
    ops.push(Op::LoopEnd { begin: 0 });
    let done = ops.len() as u32 + 1;
    ops.push(Op::TakeWork { counter: 0, chunk: super::Chunk::Fixed(ENDLESS), per_iteration: Amount::Fixed(0), done });
    task("shell", 1, SchedAttr::default(), ops)
}

fn build(p: &Params) -> Workload {
    let mut tasks = vec![shell(p, 1), hog(p)];
    if p.int("background") > 0 {
        tasks.push(background(p.int("background"), 0));
    }
    Workload {
        name: MODEL.name.into(),
        duration: None,
        tasks,
        semaphores: vec![SemaphoreSpec::new("ended", 0)],
        counters: vec![CounterSpec { name: "background".into(), total: ENDLESS }],
        queues: vec![QueueSpec::new("started")],
        devices: vec![DeviceSpec { name: "terminal".into(), servers: 1, iowait: true }],
        marks: vec!["run".into()],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_in_pieces() {
        let set = |k: &str, v: &str| (k.to_string(), v.to_string());
        let w = MODEL.workload(&[set("memory_pct", "25"), set("tasks", "3"), set("runs", "341")]).unwrap();
        let hog = &w.tasks[1].program.ops;
        assert_eq!(hog[2..4], [Op::Run(Amount::Fixed(750_000)), Op::RunInsensitive(Amount::Fixed(250_000))]);
        assert_eq!(w.tasks[0].program.ops[0], Op::Loop { count: Some(341), end: 12 });
        // A task that is forked more often than a run allows is refused, not cut.
        let many =
            |tasks: &str, runs: &str| MODEL.workload(&[set("cpus", "8"), set("tasks", tasks), set("runs", runs)]);
        assert_eq!(many("1024", "2").unwrap_err(), ["`tasks` times `runs` = 2048 threads; 1024 is the limit"]);
        assert_eq!((many("cpus", "129").is_err(), many("cpus", "128").is_err()), (true, false));
        for bad in [set("tasks", "0"), set("runs", "0"), set("tasks", "10000")] {
            assert_eq!(MODEL.workload(std::slice::from_ref(&bad)).unwrap_err().len(), 1, "{bad:?}");
        }
    }
}
