//! Sleepers: threads whose sleeps other CPUs end, in runs of short and long ones, in order or shuffled.
//!
//! No timer announces the end of a sleep: each waits for a device, whose interrupt another CPU serves. In order, `run` short
//! sleeps are followed by `run` long ones, so that a governor which remembers the last sleeps knows the next; shuffled, every
//! sleep is drawn from the same lengths, and the last says nothing of the next. What a governor loses from the one to the other
//! is what its history was worth. All lengths are inputs, not measurements.

use super::dist::Dist;
use super::forever;
use super::models::{CPUS, Model, Params, number, word};
use super::server::task;
use super::{Amount, DeviceSpec, GroupSpec, Op, SchedAttr, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "sleepers",
    title: "threads whose sleeps no timer announces, in runs of short and long ones, in order or shuffled",
    params: &[
        CPUS,
        number("threads", "0", (0, 4096), "threads; 0: one for every four CPUs"),
        number("work_us", "20", (1, 1_000_000), "work between two sleeps at full speed"),
        number("short_us", "60", (1, 10_000_000), "length of a short sleep"),
        number("long_us", "20000", (1, 10_000_000), "length of a long one"),
        number("run", "32", (1, 1000), "sleeps of one kind in a row"),
        word("order", &["ordered", "shuffled"], "runs of one kind, or the same lengths without order"),
    ],
    source: include_str!("sleepers.rs"),
    build,
};

fn build(p: &Params) -> Workload {
    let threads = if p.int("threads") == 0 { p.int("cpus").div_ceil(4) } else { p.int("threads") };
    let run = |key| std::iter::repeat_n(p.int(key) * 1000, p.int("run") as usize);
    let values: Vec<u64> = run("short_us").chain(run("long_us")).collect();
    let service = match p.word("order") {
        "shuffled" => Dist::Choice { values },
        _ => Dist::Sequence { values },
    };
    let ops = vec![
        Op::Device { device: 0, service: Amount::Random(service) },
        Op::MarkBegin,
        Op::Run(Amount::Fixed(p.int("work_us") * 1000)),
        Op::Mark(0),
    ];
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(10)),
        tasks: vec![task("sleeper", threads, SchedAttr::default(), forever(ops))],
        marks: vec!["job".into()],
        // A server for each thread: nobody waits for another's sleep.
        devices: vec![DeviceSpec { name: "device".into(), servers: threads as u32, iowait: false }],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_lengths_in_both_orders() {
        let lengths = |order: &str| {
            let w = MODEL.workload(&[("order".into(), order.into()), ("run".into(), "2".into())]).unwrap();
            match &w.tasks[0].program.ops.iter().find(|op| matches!(op, Op::Device { .. })).unwrap() {
                Op::Device { service: Amount::Random(Dist::Sequence { values } | Dist::Choice { values }), .. } => {
                    values.clone()
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(lengths("ordered"), [60_000, 60_000, 20_000_000, 20_000_000]);
        assert_eq!(lengths("ordered"), lengths("shuffled"));
    }
}
