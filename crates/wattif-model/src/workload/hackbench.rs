//! `hackbench`: groups of senders and receivers that pass small messages through sockets or pipes until all are through.
//!
//! In each group every sender writes a message to every receiver, `loops` times. A receiver's buffer holds so many messages
//! of 100 bytes; a sender that finds it full waits. Sockets and pipes wake whom they have something for as a thread that is
//! about to sleep does (`WF_SYNC`). The result is the time until the last receiver has read its last
//! message: the length of the run (metric `duration_s`).
//!
//! Neither wakes a sender for each message that is read:
//! - A *socket* holds 278 messages. What is read makes room for those who come, but who waits is woken only when no more than a
//!   quarter of the buffer is used (69 messages), and then all who wait are (`unix_writable`).
//! - A *pipe* holds 16 pages, and no message straddles two: 40 messages a page of 4 KiB, 655 a page of 64 KiB. A page is free once
//!   all of it has been read. If none was free before, one who waits is woken; it needs a whole page, and wakes the next if it
//!   leaves another. What is left of the last page is for those who come.
//!
//! FIDELITY(pipe-wakeups): pipes wake writers as since 6.14. From 5.5 on every read of a full pipe woke one, in vain until a page was
//! free; before, each page that became free woke all who waited. A writer that was woken fills up a page that others have begun.
//!
//! Source: Linux, `net/unix/af_unix.c` and `fs/pipe.c` (behaviour). Measured on 6.18 (x86): a socket is full after 278 messages, and its
//! writer is woken after 209 reads; a pipe is full after 640, and its writer goes on after 40.

use super::models::{Model, Params, number, word};
use super::server::task;
use super::{Amount, GroupSpec, Op, QueueSpec, Release, SchedAttr, SemaphoreSpec, Workload};

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
        word("page_kib", &["4", "16", "64"], "size of a page, of which a pipe has 16; that of the platform unless set"),
    ],
    source: include_str!("hackbench.rs"),
    build,
};

/// Bytes of a message.
const MESSAGE: u32 = 100;
/// Bytes of a socket's buffer (`net.core.wmem_default`), and what a message is charged.
const SNDBUF: u32 = 212_992;
const TRUESIZE: u32 = 768;
/// Pages of a pipe (`PIPE_DEF_BUFFERS`).
const PIPE_BUFFERS: u32 = 16;

/// Messages that a socket's buffer holds, and when those who wait for room in it are woken.
fn socket() -> (u32, Release) {
    // Who comes may write while a byte of it is left.
    let holds = SNDBUF.div_ceil(TRUESIZE);
    (holds, Release::AllFrom(holds - SNDBUF / 4 / TRUESIZE))
}

/// The same of a pipe.
fn pipe(page_kib: u32) -> (u32, Release) {
    let page = page_kib * 1024 / MESSAGE;
    (PIPE_BUFFERS * page, Release::Lots(page))
}

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
    let (initial, release) =
        if sockets { socket() } else { pipe(p.word("page_kib").parse().expect("one of its sizes")) };
    Workload {
        name: MODEL.name.into(),
        duration: None,
        tasks,
        semaphores: (0..groups * fds)
            .map(|b| SemaphoreSpec { name: format!("space{b}"), initial, sync: true, release })
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

    /// As measured on 6.18 with pages of 4 KiB; a pipe of 64 KiB pages holds 1 MiB.
    #[test]
    fn buffers_hold_and_wake_as_the_kernels() {
        assert_eq!(socket(), (278, Release::AllFrom(209)));
        assert_eq!(pipe(4), (640, Release::Lots(40)));
        let set = [("via", "pipes"), ("page_kib", "64")].map(|(name, value)| (name.into(), value.into()));
        let space = &MODEL.workload(&set).unwrap().semaphores[0];
        assert_eq!((space.initial, space.release), (10_480, Release::Lots(655)));
    }
}
