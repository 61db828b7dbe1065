//! `schbench`: message threads release batches of workers, and the delay until each runs is what it prints.
//!
//! Era 2020: a worker spins for a time by the clock, queues up at its messenger, wakes it and sleeps. The messenger, once
//! woken, sleeps for `sleep_us` and up to a quarter more, takes the time once, and wakes all workers that have queued
//! up. The latency is from that time until the worker runs (mark `wakeup`).
//!
//! Era 2023 (1.0): a request is a short sleep and a piece of work (mark `request`). (Short descriptions speak of two sleeps: the
//! second in the source stands for the first where only the work is calibrated.) Messengers release all workers that are ready.
//! At a rate nobody asks for work: a messenger posts eight requests, one to each worker in turn, so that one of fewer than eight
//! gets several at once, and sleeps until eight more are due; `wakeup` is then from the posting until the
//! worker takes what was posted. Schbench leaves out the samples of workers that were still busy with what came before, and
//! gives a worker nothing more that has nine requests waiting; here they queue up. FIDELITY(schbench-rate). The per-CPU locks
//! of that version, which are contended only by preemption, are not modelled.

use super::dist::Dist;
use super::forever;
use super::models::{Model, Param, Params, number, word};
use super::server::task;
use super::{Amount, GroupSpec, Op, QueueSpec, SchedAttr, TaskSpec, TimerSpec, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "schbench",
    title: "schbench: messengers wake batches of workers; the delay until a worker runs",
    params: &[
        number("messengers", "6", (1, 64), "message threads (-m)"),
        number("workers", "4", (1, 1024), "worker threads of each messenger (-t)"),
        number("cpu_us", "30000", (1, 10_000_000), "era 2020: a worker spins so long by the clock (-c)"),
        number(
            "sleep_us",
            "30000",
            (0, 10_000_000),
            "era 2020: a messenger sleeps so long, and up to a quarter more (-s)",
        ),
        ERA,
        number("work_us", "1000", (1, 10_000_000), "era 2023: the work of a request, at full speed"),
        number("usleep_us", "100", (1, 1_000_000), "era 2023: the sleep of a request, before its work"),
        number(
            "rps",
            "0",
            (0, 10_000_000),
            "era 2023: requests per second of all messengers; 0: as fast as they can (-R)",
        ),
    ],
    source: include_str!("schbench.rs"),
    build,
};

const ERA: Param = word("era", &["2020", "2023"], "2020: spin and queue up; 2023: requests of work and sleeps");
/// Era 2020 knows no requests.
const MARKS: [&str; 2] = ["wakeup", "request"];
/// Work between two looks at the clock.
const CHUNK_NS: u64 = 1_000;
/// Requests that are posted at once.
const BATCH: u64 = 8;

fn build(p: &Params) -> Workload {
    let of_2020 = p.word("era") == "2020";
    let at_a_rate = !of_2020 && p.int("rps") > 0;
    let (mut tasks, mut queues) = (Vec::new(), Vec::new());
    for m in 0..p.int("messengers") {
        if at_a_rate { served(p, m, &mut tasks, &mut queues) } else { ready(p, m, &mut tasks, &mut queues) }
    }
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(30)),
        tasks,
        timers: vec![TimerSpec { name: "rps".into(), shared: false }],
        queues,
        marks: MARKS[..if of_2020 { 1 } else { 2 }].iter().map(|m| (*m).into()).collect(),
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

fn queue(queues: &mut Vec<QueueSpec>, name: String) -> u32 {
    queues.push(QueueSpec::new(name));
    queues.len() as u32 - 1
}

fn threads(name: String, instances: u64, ops: Vec<Op>) -> TaskSpec {
    task(&name, instances, SchedAttr::default(), forever(ops))
}

/// A messenger, and workers that queue up at it when they are ready.
fn ready(p: &Params, m: u64, tasks: &mut Vec<TaskSpec>, queues: &mut Vec<QueueSpec>) {
    let (posted, release) = (queue(queues, format!("posted{m}")), queue(queues, format!("release{m}")));
    let mut messenger = vec![Op::Get(posted)];
    let mut worker = vec![Op::Put { queue: posted, forward: false }, Op::Get(release), Op::Mark(0)];
    if p.word("era") == "2020" {
        let lo = p.int("sleep_us") * 1000;
        messenger.push(Op::Sleep(Amount::Random(Dist::Uniform { lo, hi: lo + lo / 4 })));
        worker.extend(spin(p));
    } else {
        worker.extend(request(p));
    }
    // The one it was woken for waits with the others: all get the time at which it began to wake them.
    messenger.push(Op::Put { queue: posted, forward: false });
    messenger.push(Op::Drain { from: posted, to: release, forward: false });
    tasks.push(threads(format!("messenger{m}"), 1, messenger));
    tasks.push(threads(format!("worker{m}"), p.int("workers"), worker));
}

/// A messenger that posts requests at its share of the rate, and workers each with a queue of its own. What a worker gets at once
/// is one token, since it wakes up once.
fn served(p: &Params, m: u64, tasks: &mut Vec<TaskSpec>, queues: &mut Vec<QueueSpec>) {
    let workers = p.int("workers");
    let period = Amount::Fixed(BATCH * 1_000_000_000 * p.int("messengers") / p.int("rps"));
    let pause = Op::Timer { timer: 0, period, absolute: false };
    let first = queues.len() as u32;
    (0..workers).for_each(|w| _ = queue(queues, format!("requests{m}.{w}")));
    let (mut messenger, mut served) = (Vec::new(), vec![Vec::new(); workers as usize]);
    let mut next = 0;
    // After so many batches it is the first worker's turn again.
    while messenger.is_empty() || next > 0 {
        let got = (0..BATCH).map(|i| (next + i) % workers);
        for w in got.clone().take(workers as usize) {
            messenger.push(Op::Put { queue: first + w as u32, forward: false });
            let worker = &mut served[w as usize];
            worker.extend([Op::Get(first + w as u32), Op::Mark(0)]);
            got.clone().filter(|of| *of == w).for_each(|_| worker.extend(request(p)));
        }
        messenger.push(pause.clone());
        next = (next + BATCH) % workers;
    }
    tasks.push(threads(format!("messenger{m}"), 1, messenger));
    tasks.extend(served.into_iter().map(|ops| threads(format!("worker{m}"), 1, ops)));
}

fn spin(p: &Params) -> Vec<Op> {
    vec![Op::Spin { wall: Amount::Fixed(p.int("cpu_us") * 1000), chunk: CHUNK_NS }]
}

/// Without the lock that the work takes there. FIDELITY(schbench-locks)
fn request(p: &Params) -> Vec<Op> {
    let nap = Op::Sleep(Amount::Fixed(p.int("usleep_us") * 1000));
    vec![Op::MarkBegin, nap, Op::Run(Amount::Fixed(p.int("work_us") * 1000)), Op::Mark(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(set: &[(&str, &str)]) -> Workload {
        let set: Vec<_> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        MODEL.workload(&set).unwrap()
    }

    #[test]
    fn threads_of_the_published_command() {
        let w = built(&[("messengers", "6"), ("workers", "16")]);
        assert_eq!(w.tasks.iter().map(|t| t.instances).sum::<u32>(), 6 + 6 * 16);
        let sleeps = |t: &TaskSpec| t.program.ops.iter().any(|op| matches!(op, Op::Sleep(_)));
        assert!(sleeps(&w.tasks[0]) && !sleeps(&w.tasks[1]), "only messengers sleep for a time");
    }

    #[test]
    fn each_era_has_its_marks() {
        assert_eq!(built(&[]).marks, ["wakeup"]);
        assert_eq!(built(&[("era", "2023")]).marks, ["wakeup", "request"]);
    }

    fn requests(t: &TaskSpec) -> usize {
        t.program.ops.iter().filter(|op| **op == Op::MarkBegin).count()
    }

    #[test]
    fn a_request_is_a_sleep_and_a_piece_of_work() {
        let w = built(&[("era", "2023")]);
        let body = &w.tasks[1].program.ops;
        let at = body.iter().position(|op| *op == Op::MarkBegin).unwrap();
        let (nap, work) = (Op::Sleep(Amount::Fixed(100_000)), Op::Run(Amount::Fixed(1_000_000)));
        assert_eq!(body[at..at + 4], [Op::MarkBegin, nap, work, Op::Mark(1)]);
        assert_eq!(requests(&w.tasks[1]), 1);
    }

    /// Three workers: 3 + 3 + 2 requests in the first batch, and after three batches it is the first one's turn again.
    #[test]
    fn a_rate_is_shared_by_the_messengers_and_posted_in_batches_to_workers_in_turn() {
        let w = built(&[("era", "2023"), ("rps", "1000"), ("messengers", "4"), ("workers", "3")]);
        assert_eq!(w.tasks.iter().map(|t| t.instances).sum::<u32>(), 4 + 4 * 3);
        let (messenger, workers) = (&w.tasks[12].program.ops, &w.tasks[13..]);
        let pauses = messenger.iter().filter_map(|op| match op {
            Op::Timer { period: Amount::Fixed(ns), .. } => Some(*ns),
            _ => None,
        });
        assert_eq!(pauses.collect::<Vec<_>>(), [32_000_000; 3], "eight of 250 a second take 32 ms");
        let posted = messenger.iter().filter_map(|op| match op {
            Op::Put { queue, .. } => Some(*queue),
            _ => None,
        });
        assert_eq!(posted.collect::<Vec<_>>(), [9, 10, 11, 11, 9, 10, 10, 11, 9]);
        assert_eq!(workers.iter().map(requests).collect::<Vec<_>>(), [8; 3], "of 24");
        let at_once = |t: &TaskSpec| {
            let of = t.program.ops.split(|op| matches!(op, Op::Get(_))).skip(1);
            of.map(|ops| ops.iter().filter(|op| **op == Op::MarkBegin).count()).collect::<Vec<_>>()
        };
        assert_eq!(workers.iter().map(at_once).collect::<Vec<_>>(), [[3, 3, 2], [3, 2, 3], [2, 3, 3]]);
        // Of more than eight, each gets one when it is its turn.
        let w = built(&[("era", "2023"), ("rps", "1000"), ("messengers", "1"), ("workers", "12")]);
        assert_eq!(w.tasks[1..].iter().map(at_once).collect::<Vec<_>>(), vec![vec![1, 1]; 12]);
    }
}
