//! `hackbench`: groups of senders and receivers that pass small messages through sockets or pipes until all are through.
//!
//! In each group every sender writes a message to every receiver, `loops` times. A receiver's buffer holds so many messages
//! of 100 bytes; a sender that finds it full waits. Sockets and pipes wake whom they have something for as a thread that is
//! about to sleep does (`WF_SYNC`). The result is the time until the last receiver has read its last
//! message: the length of the run (metric `duration_s`).

use super::models::{Model, Params, number, word};
use super::server::task;
use super::{Amount, GroupSpec, Op, QueueSpec, SchedAttr, SemaphoreSpec, Workload};

/// The model.
pub const MODEL: Model = Model {
    name: "hackbench",
    title: "hackbench: senders and receivers of small messages; the time until all are through",
    params: &[
        number("groups", "10", (1, 64), "groups (-g)"),
        number("fds", "20", (1, 40), "senders, and receivers, of a group (-f)"),
        number("loops", "100", (1, 1_000_000), "messages from each sender to each receiver (-l)"),
        word("via", &["sockets", "pipes"], "what messages go through (pipes: -p)"),
        number(
            "message_ns",
            "0",
            (0, 1_000_000),
            "work to write, and to read, a message; 0: 2500 for sockets, 1200 for pipes",
        ),
    ],
    source: include_str!("hackbench.rs"),
    build,
};

/// Messages of 100 bytes in a socket's buffer: 212,992 bytes, 768 charged for each.
const SOCKET_MESSAGES: u32 = 277;
/// In a pipe of 64 KiB.
const PIPE_MESSAGES: u32 = 655;

fn build(p: &Params) -> Workload {
    let (groups, fds, loops) = (p.int("groups"), p.int("fds"), p.int("loops"));
    let sockets = p.word("via") == "sockets";
    let message_ns = match p.int("message_ns") {
        0 if sockets => 2_500,
        0 => 1_200,
        ns => ns,
    };
    let work = || Op::Run(Amount::Fixed(message_ns));
    let repeat = |count: u64, body: Vec<Op>| {
        let end = body.len() as u32 + 1;
        let mut ops = vec![Op::Loop { count: Some(count), end }];
        ops.extend(body);
        ops.push(Op::LoopEnd { begin: 0 });
        ops
    };
    let mut tasks = Vec::new();
    for g in 0..groups {
        let buffers = (g * fds) as u32..((g + 1) * fds) as u32;
        let write = |b| [Op::SemWait(b), work(), Op::Put { queue: b, forward: false }];
        let send = repeat(loops, buffers.clone().flat_map(write).collect());
        tasks.push(task(&format!("sender{g}"), fds, SchedAttr::default(), send));
        for b in buffers {
            let read = repeat(loops * fds, vec![Op::Get(b), work(), Op::SemPost(b), Op::Mark(0)]);
            tasks.push(task(&format!("receiver{b}"), 1, SchedAttr::default(), read));
        }
    }
    let initial = if sockets { SOCKET_MESSAGES } else { PIPE_MESSAGES };
    Workload {
        name: MODEL.name.into(),
        duration: None,
        tasks,
        semaphores: (0..groups * fds)
            .map(|b| SemaphoreSpec { name: format!("space{b}"), initial, sync: true })
            .collect(),
        queues: (0..groups * fds).map(|b| QueueSpec::sync(format!("buffer{b}"))).collect(),
        marks: vec!["message".into()],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_threads_a_group_and_every_message_is_read() {
        let w = MODEL.workload(&[("groups".into(), "2".into()), ("loops".into(), "7".into())]).unwrap();
        assert_eq!(w.tasks.iter().map(|t| t.instances).sum::<u32>(), 80);
        let reads = w.tasks.iter().filter(|t| t.name.starts_with("receiver")).map(|t| match t.program.ops[0] {
            Op::Loop { count: Some(n), .. } => n,
            _ => 0,
        });
        assert_eq!(reads.sum::<u64>(), 2 * 20 * 20 * 7);
        assert!(w.queues.iter().all(|q| q.sync) && w.semaphores.iter().all(|s| s.sync));
        assert!(w.ends_by_itself());
    }
}
