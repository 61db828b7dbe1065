//! `ebizzy` with sleeps: threads that allocate, copy and search chunks of memory, and rest now and then.
//!
//! Each record is a piece of work of which a part does not scale with the clock (memory). After every `sleep_every` records a
//! thread sleeps `sleep_us`; 0 records: never, which is the program's own default. Throughput is records per second
//! (mark `record`).

use super::dist::Dist;
use super::forever;
use super::models::{CPUS, Model, Params, number};
use super::server::task;
use super::{Amount, GroupSpec, Op, SchedAttr, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "ebizzy",
    title: "ebizzy with sleeps: threads search chunks of memory and rest now and then; records per second",
    params: &[
        CPUS,
        number("threads", "0", (0, 4096), "threads (-t); 0: one per CPU"),
        number("record_us", "60", (1, 1_000_000), "median work of a record at full speed"),
        number("memory_us", "20", (0, 1_000_000), "time of a record that the clock does not change"),
        number("sleep_every", "10", (0, 1_000_000), "records between two sleeps (-a); 0: never"),
        number("sleep_us", "300", (1, 10_000_000), "length of a sleep (-i)"),
    ],
    source: include_str!("ebizzy.rs"),
    build,
};

/// σ of the logarithm of a record's work, in 1/1000.
const SIGMA_MILLI: u32 = 200;

fn build(p: &Params) -> Workload {
    let threads = if p.int("threads") == 0 { p.int("cpus") } else { p.int("threads") };
    let median = p.int("record_us") * 1000;
    let mut record = vec![Op::MarkBegin, Op::Run(Amount::Random(Dist::LogNormal { median, sigma_milli: SIGMA_MILLI }))];
    if p.int("memory_us") > 0 {
        record.push(Op::RunInsensitive(Amount::Fixed(p.int("memory_us") * 1000)));
    }
    record.push(Op::Mark(0));
    let mut ops = record.clone();
    if p.int("sleep_every") > 0 {
        // Begins at 1: the whole is in a loop without end.
        let end = record.len() as u32 + 2;
        ops = vec![Op::Loop { count: Some(p.int("sleep_every")), end }];
        ops.extend(record);
        ops.extend([Op::LoopEnd { begin: 1 }, Op::Sleep(Amount::Fixed(p.int("sleep_us") * 1000))]);
    }
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(10)),
        tasks: vec![task("ebizzy", threads, SchedAttr::default(), forever(ops))],
        marks: vec!["record".into()],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_only_when_asked_to() {
        let sleeps = |every: &str| {
            let w = MODEL.workload(&[("sleep_every".into(), every.into())]).unwrap();
            w.tasks[0].program.ops.iter().filter(|op| matches!(op, Op::Sleep(_))).count()
        };
        assert_eq!([sleeps("0"), sleeps("10")], [0, 1]);
    }

    #[test]
    fn a_thread_per_cpu() {
        let threads = |n: &str| {
            let w = MODEL.workload(&[("cpus".into(), "64".into()), ("threads".into(), n.into())]).unwrap();
            w.tasks[0].instances
        };
        assert_eq!([threads("0"), threads("5")], [64, 5]);
    }
}
