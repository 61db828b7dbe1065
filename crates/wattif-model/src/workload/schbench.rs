//! `schbench`: message threads release batches of workers, and the delay until each runs is what it prints.
//!
//! Era 2020: a worker spins for a time by the clock, queues up at its messenger, wakes it and sleeps. The messenger, once
//! woken, sleeps for `sleep_us` and up to a quarter more, takes the time once, and wakes all workers that have queued
//! up. The latency is from that time until the worker runs (mark `wakeup`).
//!
//! Era 2023: a request is two short sleeps and two pieces of work (mark `request`); messengers release a worker as soon
//! as it is ready, or at a rate. The per-CPU locks of that version, which are contended only by preemption, are not
//! modelled.

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
        number(
            "work_us",
            "500",
            (1, 10_000_000),
            "era 2023: each of the two pieces of work of a request, at full speed",
        ),
        number("usleep_us", "100", (1, 1_000_000), "era 2023: each of the two sleeps of a request"),
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

fn build(p: &Params) -> Workload {
    let messengers = p.int("messengers") as u32;
    let (mut tasks, mut queues) = (Vec::new(), Vec::new());
    for m in 0..messengers {
        let (posted, release) = (2 * m, 2 * m + 1);
        queues.extend(["posted", "release"].map(|what| QueueSpec::new(format!("{what}{m}"))));
        tasks.push(task(&format!("messenger{m}"), 1, SchedAttr::default(), forever(messenger(p, posted, release))));
        let work = if p.word("era") == "2020" { spin(p) } else { request(p) };
        let mut ops = vec![Op::Put { queue: posted, forward: false }, Op::Get(release), Op::Mark(0)];
        ops.extend(work);
        tasks.push(worker(m, p.int("workers"), ops));
    }
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(30)),
        tasks,
        timers: vec![TimerSpec { name: "rps".into(), shared: false }],
        queues,
        marks: MARKS[..if p.word("era") == "2020" { 1 } else { 2 }].iter().map(|m| (*m).into()).collect(),
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

fn worker(m: u32, workers: u64, ops: Vec<Op>) -> TaskSpec {
    task(&format!("worker{m}"), workers, SchedAttr::default(), forever(ops))
}

fn messenger(p: &Params, posted: u32, release: u32) -> Vec<Op> {
    // The one it was woken for waits with the others: all get the time at which it began to wake them.
    let all = [Op::Put { queue: posted, forward: false }, Op::Drain { from: posted, to: release, forward: false }];
    let mut ops = vec![Op::Get(posted)];
    if p.word("era") == "2020" {
        let lo = p.int("sleep_us") * 1000;
        ops.push(Op::Sleep(Amount::Random(Dist::Uniform { lo, hi: lo + lo / 4 })));
        ops.extend(all);
        return ops;
    }
    match p.int("rps") {
        0 => {}
        rps => {
            // One worker a period; those that are not ready yet are waited for.
            let period = Amount::Fixed(1_000_000_000 * p.int("messengers") / rps);
            return vec![
                Op::Timer { timer: 0, period, absolute: true },
                Op::Get(posted),
                Op::Put { queue: release, forward: false },
            ];
        }
    }
    ops.extend(all);
    ops
}

fn spin(p: &Params) -> Vec<Op> {
    vec![Op::Spin { wall: Amount::Fixed(p.int("cpu_us") * 1000), chunk: CHUNK_NS }]
}

/// Without the lock that the second piece of work takes there. FIDELITY(schbench-locks)
fn request(p: &Params) -> Vec<Op> {
    let nap = || Op::Sleep(Amount::Fixed(p.int("usleep_us") * 1000));
    let work = || Op::Run(Amount::Fixed(p.int("work_us") * 1000));
    vec![Op::MarkBegin, nap(), work(), nap(), work(), Op::Mark(1)]
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

    #[test]
    fn a_rate_is_shared_by_the_messengers() {
        let w = built(&[("era", "2023"), ("rps", "1000"), ("messengers", "4")]);
        let periods = w.tasks.iter().flat_map(|t| &t.program.ops).filter_map(|op| match op {
            Op::Timer { period: Amount::Fixed(ns), .. } => Some(*ns),
            _ => None,
        });
        assert_eq!(periods.collect::<Vec<_>>(), [4_000_000; 4]);
    }
}
