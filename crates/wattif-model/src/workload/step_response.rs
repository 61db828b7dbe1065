//! A load that starts at once and stops at once, and starts again after a pause: how fast do the scheduler's signals follow?
//!
//! One thread, alone on its CPU: it sleeps until all is forgotten, is busy until all is full (`busy_ms` each), then sleeps for a
//! pause and is busy again. Pauses go from `from_ms` to `to_ms` in steps of `step_us`, so that the shortest one after which a
//! signal had fallen is known to a step. Signals of this workload are followed (`signals.util_avg.rise_ms`, `…fall_ms`).
//! Run it under `cpufreq=performance` on a CPU of full capacity for what the mathematics say; otherwise the ramp of the
//! frequency is part of the answer. A fall is known to `step_us`, 5 ms unless said, and lasts until the CPU has left its idle
//! state. From 100 to 10 % takes PELT 106.3 periods, 111.5 ms, so for a quarter of a millisecond:
//!
//! `wattif run step_response:cpu=7,from_ms=100,to_ms=120,step_us=250 -p sdm835 --set cpufreq=performance`
//!
//! All times are inputs, none is calibrated.

use super::dist::Dist;
use super::forever;
use super::models::{Model, Params, number};
use super::{Amount, GroupSpec, Op, TaskSpec, Workload};
use crate::ids::{CpuId, CpuSet};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "step_response",
    title: "a load that starts and stops at once: how fast signals follow",
    params: &[
        number("cpu", "0", (0, 1023), "the CPU it runs on"),
        number("busy_ms", "400", (1, 100_000), "length of each busy time, and of the long sleeps"),
        number("from_ms", "10", (0, 100_000), "shortest pause"),
        number("to_ms", "250", (0, 100_000), "longest pause"),
        number("step_us", "5000", (1, 10_000_000), "from one pause to the next"),
    ],
    source: include_str!("step_response.rs"),
    build,
};

fn build(p: &Params) -> Workload {
    let busy = p.int("busy_ms") * 1_000_000;
    let (from, to) = (p.int("from_ms") * 1_000_000, p.int("to_ms") * 1_000_000);
    let steps = (from..=to).step_by(p.int("step_us") as usize * 1000);
    let pauses: Vec<u64> = steps.map(|ns| ns.max(1)).collect();
    let spin = || Op::Spin { wall: Amount::Fixed(busy), chunk: 1_000_000 };
    let whole: u64 = pauses.iter().map(|pause| pause + 3 * busy).sum();
    let ops = vec![
        Op::Sleep(Amount::Fixed(busy)),
        spin(),
        Op::Sleep(Amount::Random(Dist::Sequence { values: pauses })),
        spin(),
    ];
    let cpus = Some(CpuSet::one(CpuId(p.int("cpu") as u32)));
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns(whole)),
        tasks: vec![TaskSpec { cpus, ..TaskSpec::new("step", forever(ops)) }],
        groups: vec![GroupSpec::root()],
        follow_signals: true,
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(set: &[(&str, &str)]) -> Result<Workload, impl std::fmt::Debug> {
        MODEL.workload(&set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<Vec<_>>())
    }
    fn pauses(set: &[(&str, &str)]) -> Vec<u64> {
        let w = model(set).unwrap();
        assert!(w.follow_signals);
        let sleep = w.tasks[0].program.ops.iter().find_map(|op| match op {
            Op::Sleep(Amount::Random(Dist::Sequence { values })) => Some(values.clone()),
            _ => None,
        });
        sleep.unwrap()
    }

    #[test]
    fn pauses_by_steps() {
        assert_eq!(pauses(&[("from_ms", "1"), ("to_ms", "2"), ("step_us", "400")]), [1_000_000, 1_400_000, 1_800_000]);
        // Never none, never zero, never without bound.
        assert_eq!(pauses(&[("from_ms", "7"), ("to_ms", "7")]), [7_000_000]);
        assert!(model(&[("from_ms", "7"), ("to_ms", "0")]).is_err());
        assert_eq!(pauses(&[("from_ms", "0"), ("to_ms", "0")]), [1]);
        assert_eq!(pauses(&[("from_ms", "0"), ("to_ms", "100"), ("step_us", "11")]).len(), 9_091);
        let why = format!("{:?}", model(&[("from_ms", "0"), ("to_ms", "100"), ("step_us", "10")]).unwrap_err());
        assert!(why.contains("are 10001 pauses; 10000 is the limit"), "{why}");
    }
}
