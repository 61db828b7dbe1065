//! `pgbench`: clients and their server processes, a TPC-B-like transaction of seven round trips.
//!
//! A client sends a statement and waits for the answer: BEGIN, three UPDATE, SELECT, INSERT, END. Client and server process
//! alternate strictly. The UPDATE of the branch takes the lock of its row until the transaction has ended, so with few
//! branches (`scale`) the clients queue up there. END waits until the log is on disk: one flush serves all that have come
//! before it (group commit). The client polls its socket, so that the answer wakes it as by a thread that is about to sleep
//! (`WF_SYNC`); the server waits in epoll, which until 6.12 does not say so. A transaction's latency is from BEGIN until the
//! answer to END (mark `transaction`).
//!
//! `threads` is the program's `-j`, whose own default is 1. A thread with several clients polls all their sockets and handles the
//! answers in the order of their arrival: one queue of answers and one of requests, from which that server process takes the next
//! that has waited longest, since it answered first. It does not see whose answer it has, so that there a transaction's latency is from the
//! server's answer to the last END until that to this one. A client that pauses has a thread to itself.

use super::dist::Dist;
use super::forever;
use super::models::{Model, Params, number};
use super::server::task;
use super::{Amount, DeviceSpec, GroupSpec, Named, Op, QueueSpec, SchedAttr, Workload};
use crate::units::Ns;
use std::collections::BTreeSet;

/// The model.
pub const MODEL: Model = Model {
    name: "pgbench",
    title: "pgbench: clients and server processes in turn, row locks, group commit; transactions per second",
    params: &[
        number("clients", "8", (1, 1024), "clients, each with a server process of its own (-c)"),
        number("threads", "1024", (1, 1024), "threads that serve the clients, no more than there are clients (-j)"),
        number("scale", "100", (1, 100_000), "branches: rows that all transactions update one of (-s)"),
        number(
            "statement_us",
            "50",
            (1, 1_000_000),
            "median work of a statement in the server at full speed; an UPDATE twice",
        ),
        number("client_us", "10", (1, 1_000_000), "median work of the client between two statements"),
        number("think_us", "0", (0, 10_000_000), "pause of a client between two transactions, exponential mean"),
        number("flush_us", "500", (1, 1_000_000), "median time to write the log to disk"),
    ],
    source: include_str!("pgbench.rs"),
    build,
};

/// σ of the logarithm of each piece of work, in 1/1000.
const SIGMA_MILLI: u32 = 300;
/// Transactions written out in a program, each with its own branch.
const UNROLLED: u64 = 16;

/// Queues of the log: to be flushed, being flushed, flushed. Then two for each client.
const COMMIT: u32 = 0;
const BATCH: u32 = 1;
const COMMITTED: u32 = 2;

/// A statement and how often it costs `statement_us`, in tenths.
const STATEMENTS: [(Statement, u64); 7] = [
    (Statement::Plain, 3),
    (Statement::Plain, 20),
    (Statement::Plain, 10),
    (Statement::Plain, 20),
    (Statement::Branch, 20),
    (Statement::Plain, 10),
    (Statement::End, 5),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Statement {
    Plain,
    /// The UPDATE that takes the branch's row.
    Branch,
    End,
}

fn build(p: &Params) -> Workload {
    let clients = p.int("clients");
    // Of all branches those that some transaction updates.
    let drawn: Vec<u64> = (0..clients * UNROLLED).map(|n| branch(n, p.int("scale"))).collect();
    let branches: Vec<u64> = BTreeSet::from_iter(drawn.iter().copied()).into_iter().collect();
    let at = |branch| branches.binary_search(&branch).expect("it was drawn") as u32;
    let mut queues: Vec<QueueSpec> = ["commit", "batch", "committed"].map(QueueSpec::new).into();
    let mut tasks = vec![task("walwriter", 1, SchedAttr::default(), forever(flusher(p)))];
    let threads = if p.int("think_us") > 0 { clients } else { clients.min(p.int("threads")) };
    let mut served = 0;
    for t in 0..threads {
        queues.extend([QueueSpec::new(format!("request{t}")), QueueSpec::sync(format!("reply{t}"))]);
        let (request, reply) = (3 + 2 * t as u32, 4 + 2 * t as u32);
        let share = (clients - served).div_ceil(threads - t);
        let ops = if share == 1 { forever(client(p, request, reply)) } else { thread(p, request, reply, share) };
        tasks.push(task(&format!("client{t}"), 1, SchedAttr::default(), ops));
        for c in served..served + share {
            let own = &drawn[(c * UNROLLED) as usize..][..UNROLLED as usize];
            let backend = own.iter().flat_map(|&branch| transaction(p, request, reply, at(branch), share > 1));
            tasks.push(task(&format!("postgres{c}"), 1, SchedAttr::default(), forever(backend.collect())));
        }
        served += share;
    }
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(10)),
        tasks,
        mutexes: branches.iter().map(|b| Named { name: format!("branch{b}") }).collect(),
        devices: vec![DeviceSpec { name: "wal".into(), servers: 1, iowait: true }],
        queues,
        marks: vec!["transaction".into()],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

/// A branch for the n-th transaction written out: scattered, and the same in every run.
fn branch(n: u64, scale: u64) -> u64 {
    let scattered = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    scattered % scale
}

fn work(median_ns: u64) -> Op {
    Op::Run(Amount::Random(Dist::LogNormal { median: median_ns.max(1), sigma_milli: SIGMA_MILLI }))
}

fn client(p: &Params, request: u32, reply: u32) -> Vec<Op> {
    let mut ops = Vec::new();
    if p.int("think_us") > 0 {
        ops.push(Op::Sleep(Amount::Random(Dist::Exponential { mean: p.int("think_us") * 1000 })));
    }
    for n in 0..STATEMENTS.len() {
        // The stamp of the first statement travels with all of them.
        let put = Op::Put { queue: request, forward: n > 0 };
        ops.extend([work(p.int("client_us") * 1000), put, Op::Get(reply)]);
    }
    ops.push(Op::Mark(0));
    ops
}

/// One that serves several clients: a first statement for each, then one for every answer.
fn thread(p: &Params, request: u32, reply: u32, clients: u64) -> Vec<Op> {
    let statement = || [work(p.int("client_us") * 1000), Op::Put { queue: request, forward: true }];
    let mut ops: Vec<Op> = (0..clients).flat_map(|_| statement()).collect();
    let begin = ops.len() as u32;
    ops.extend([Op::Loop { count: None, end: begin + 4 }, Op::Get(reply)]);
    ops.extend(statement());
    ops.push(Op::LoopEnd { begin });
    ops
}

/// `marks`: the server tells that a transaction has ended, for a thread that cannot.
fn transaction(p: &Params, request: u32, reply: u32, branch: u32, marks: bool) -> Vec<Op> {
    let mut ops = Vec::new();
    for (statement, tenths) in STATEMENTS {
        ops.push(Op::Get(request));
        if statement == Statement::Branch {
            ops.push(Op::Lock(branch));
        }
        ops.push(work(p.int("statement_us") * 100 * tenths));
        if statement == Statement::End {
            ops.extend([Op::Put { queue: COMMIT, forward: true }, Op::Get(COMMITTED), Op::Unlock(branch)]);
            ops.extend(marks.then_some(Op::Mark(0)));
        }
        // The stamp of the next transaction where nobody else can give one.
        ops.push(Op::Put { queue: reply, forward: !(marks && statement == Statement::End) });
    }
    ops
}

/// PostgreSQL's waiting committers elect one that writes for all; here a thread of its own does. FIDELITY(pgbench-commit)
fn flusher(p: &Params) -> Vec<Op> {
    let service = Dist::LogNormal { median: p.int("flush_us") * 1000, sigma_milli: SIGMA_MILLI };
    vec![
        Op::Get(COMMIT),
        Op::Put { queue: BATCH, forward: true },
        Op::Drain { from: COMMIT, to: BATCH, forward: true },
        Op::Device { device: 0, service: Amount::Random(service) },
        Op::Drain { from: BATCH, to: COMMITTED, forward: true },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_round_trips_a_pair_of_processes_each() {
        let w = MODEL.workload(&[("clients".into(), "4".into())]).unwrap();
        assert_eq!(w.tasks.len(), 1 + 2 * 4);
        let count = |t: usize, f: fn(&Op) -> bool| w.tasks[t].program.ops.iter().filter(|op| f(op)).count();
        assert_eq!(count(1, |op| matches!(op, Op::Put { .. })), 7);
        assert_eq!(count(2, |op| matches!(op, Op::Lock(_))), UNROLLED as usize);
        assert_eq!(count(2, |op| matches!(op, Op::Unlock(_))), UNROLLED as usize);
        let sync = w.queues.iter().filter(|q| q.sync).map(|q| &q.name[..]);
        assert_eq!(sync.collect::<Vec<_>>(), ["reply0", "reply1", "reply2", "reply3"]);
    }

    /// As the program deals clients out to `-j` threads; one that serves several keeps a statement for each under way.
    #[test]
    fn threads_share_the_clients() {
        let model = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            MODEL.workload_and_unread(&set).unwrap()
        };
        let (w, _) = model(&[("clients", "5"), ("threads", "2")]);
        let names: Vec<&str> = w.tasks.iter().map(|t| &t.name[..]).collect();
        let backends = ["client0", "postgres0", "postgres1", "postgres2", "client1", "postgres3", "postgres4"];
        assert_eq!(names, [&["walwriter"][..], &backends].concat());
        assert_eq!(w.queues.iter().filter(|q| q.sync).count(), 2);
        let count = |t: usize, f: fn(&Op) -> bool| w.tasks[t].program.ops.iter().filter(|op| f(op)).count();
        assert_eq!([1, 5].map(|t| count(t, |op| matches!(op, Op::Put { .. }))), [3 + 1, 2 + 1]);
        assert_eq!([1, 2].map(|t| count(t, |op| matches!(op, Op::Mark(_)))), [0, UNROLLED as usize]);
        let own = |set: &[(&str, &str)]| model(set).0 == model(&[]).0;
        assert!(own(&[("threads", "8")]) && own(&[("threads", "9")]) && !own(&[("threads", "7")]));
        let unread = model(&[("threads", "1"), ("think_us", "9")]).1;
        assert_eq!(unread, ["threads"], "who pauses has a thread to itself");
    }

    #[test]
    fn with_one_branch_all_update_the_same_row() {
        let locks = |scale: &str| {
            let w = MODEL.workload(&[("scale".into(), scale.into())]).unwrap();
            let mut taken: Vec<u32> = w
                .tasks
                .iter()
                .flat_map(|t| &t.program.ops)
                .filter_map(|op| match op {
                    Op::Lock(b) => Some(*b),
                    _ => None,
                })
                .collect();
            taken.sort_unstable();
            taken.dedup();
            taken.len()
        };
        assert_eq!(locks("1"), 1);
        assert!(locks("100") > 60, "scattered over the branches");
        // Of 128 transactions written out hardly two update the same of so many.
        assert!(locks("100000") > 120);
    }
}
