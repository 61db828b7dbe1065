//! `server`: a latency-sensitive server beside a video-encoding side job.
//!
//! Requests arrive at a Poisson rate from the network and wait in one queue; workers take them, compute (log-normal service
//! time) and answer. The encoder has one thread per CPU, each encoding slices of a frame without pause. A request's latency runs
//! from its arrival to its answer; the side job's throughput is slices per second.

use super::dist::Dist;
use super::models::{Model, Param, Params, SIDE_POLICY};
use super::{Amount, DeviceSpec, GroupSpec, Named, Op, Program, SchedAttr, TaskSpec, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "server",
    title: "a server with Poisson arrivals on most CPUs, and a video encoder as side job",
    params: &[
        Param { name: "workers", default: "8", range: Some((1, 1024)), words: &[], doc: "threads that serve requests" },
        Param {
            name: "requests_per_s",
            default: "2000",
            range: Some((1, 1_000_000)),
            words: &[],
            doc: "mean arrival rate",
        },
        Param {
            name: "service_us",
            default: "1800",
            range: Some((1, 10_000_000)),
            words: &[],
            doc: "median work of a request at full speed; sigma of its logarithm is 0.5",
        },
        Param { name: "side_threads", default: "8", range: Some((0, 1024)), words: &[], doc: "threads of the encoder" },
        Param { name: "slice_us", default: "4000", range: Some((1, 10_000_000)), words: &[], doc: "work per slice" },
        SIDE_POLICY,
    ],
    build,
};

fn build(p: &Params) -> Workload {
    let task = |name: &str, instances: u64, attr: SchedAttr, ops: Vec<Op>| TaskSpec {
        name: name.into(),
        instances: instances as u32,
        delay: Ns::ZERO,
        attr,
        cpus: None,
        group: 0,
        program: Program { ops },
    };
    // The network card is a device: the time between two requests is its service time, so a client costs no CPU but
    // its interrupt and the hand-over.
    let between = Dist::Exponential { mean: 1_000_000_000 / p.int("requests_per_s") };
    let arrivals =
        forever(vec![Op::Device { device: 0, service: Amount::Random(between) }, Op::Put { queue: 0, forward: false }]);
    let service = Dist::LogNormal { median: p.int("service_us") * 1000, sigma_milli: 500 };
    let serve = forever(vec![Op::Get(0), Op::Run(Amount::Random(service)), Op::Mark(0)]);
    let slice = Dist::LogNormal { median: p.int("slice_us") * 1000, sigma_milli: 200 };
    let encode = forever(vec![Op::MarkBegin, Op::Run(Amount::Random(slice)), Op::Mark(1)]);
    let mut tasks = vec![
        task("network", 1, SchedAttr::default(), arrivals),
        task("worker", p.int("workers"), SchedAttr::default(), serve),
    ];
    if p.int("side_threads") > 0 {
        tasks.push(task("encoder", p.int("side_threads"), p.side_attr(), encode));
    }
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(10)),
        tasks,
        devices: vec![DeviceSpec { name: "network".into(), servers: 1 }],
        queues: vec![Named { name: "requests".into() }],
        marks: vec!["request".into(), "slice".into()],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

/// `body`, over and over.
pub(super) fn forever(body: Vec<Op>) -> Vec<Op> {
    let end = body.len() as u32 + 1;
    let mut ops = vec![Op::Loop { count: None, end }];
    ops.extend(body);
    ops.push(Op::LoopEnd { begin: 0 });
    ops
}
