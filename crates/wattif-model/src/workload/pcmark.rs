//! `pcmark`: interactive bursts as in PCMark Work: web pages, writing, photo effects, a video that is sought in.
//!
//! An operation is a burst of work in a thread that hands parts to helpers and waits for them and for a service: other
//! processes, and in the video, whose positions are read from files, the storage (only there the wait is for I/O). Then the
//! user looks at the result. The score of a test is the inverse of the mean operation time (mark `operation`). Every
//! operation begins without a touch event: the benchmark drives itself.
//!
//! No source says what the benchmark's threads do. Calibrated: length of the bursts (20 to 300 ms at full speed) and the
//! time of looking, once for all kernels; ranges tried: `think_ms` 50 to 1000, parts of a photo effect 3 to 16, of which 12
//! come closest to what is published of two trackers.

use super::dist::Dist;
use super::forever;
use super::frames::{nice, repeat};
use super::models::{Model, Param, Params, number, word};
use super::server::task;
use super::{Amount, DeviceSpec, GroupSpec, Op, QueueSpec, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "pcmark",
    title: "PCMark Work: bursts of work with pauses between them; the score is 1 / operation time",
    params: &[TEST, number("think_ms", "200", (1, 100_000), "mean pause between operations")],
    source: include_str!("pcmark.rs"),
    build,
};

const TEST: Param = word("test", &["web", "video", "writing", "photo"], "which of its tests");

const PART: u32 = 0;
const DONE: u32 = 1;
const BEGUN: u32 = 2;

/// Parts of an operation, median work of each in the main thread and in each helper, and helpers. µs.
struct Shape {
    parts: u64,
    main_us: u64,
    helper_us: u64,
    helpers: u64,
    service_us: u64,
}

fn shape(test: &str) -> Shape {
    match test {
        "web" => Shape { parts: 6, main_us: 9_000, helper_us: 5_000, helpers: 2, service_us: 1_000 },
        "writing" => Shape { parts: 4, main_us: 12_000, helper_us: 2_000, helpers: 1, service_us: 500 },
        "photo" => Shape { parts: 12, main_us: 14_000, helper_us: 12_000, helpers: 2, service_us: 500 },
        _ => Shape { parts: 12, main_us: 1_200, helper_us: 1_500, helpers: 2, service_us: 8_000 },
    }
}

fn build(p: &Params) -> Workload {
    let s = shape(p.word("test"));
    let work = |us: u64| Op::Run(Amount::Random(Dist::LogNormal { median: us * 1_000, sigma_milli: 400 }));
    let think = |ns| Op::Sleep(Amount::Random(Dist::Exponential { mean: ns }));
    let half = p.int("think_ms") * 500_000;
    let mut part = vec![work(s.main_us)];
    part.extend((0..s.helpers).map(|_| Op::Put { queue: PART, forward: true }));
    part.push(Op::Device { device: 0, service: Amount::Random(Dist::Exponential { mean: s.service_us * 1_000 }) });
    part.extend((0..s.helpers).map(|_| Op::Get(DONE)));
    let mut ops = vec![Op::Sleep(Amount::Fixed(half)), think(half)];
    // A token to itself: what it hands on, and gets back, bears the time at which the operation began.
    ops.extend([Op::Put { queue: BEGUN, forward: false }, Op::Get(BEGUN)]);
    ops.extend(repeat(ops.len() + 1, s.parts, part));
    ops.push(Op::Mark(0));
    let helper = vec![Op::Get(PART), work(s.helper_us), Op::Put { queue: DONE, forward: true }];
    Workload {
        name: format!("pcmark_{}", p.word("test")),
        duration: Some(Ns::from_s(30)),
        tasks: vec![task("main", 1, nice(-4), forever(ops)), task("helper", s.helpers, nice(0), forever(helper))],
        devices: vec![DeviceSpec { name: "service".into(), servers: 4, iowait: p.word("test") == "video" }],
        queues: ["part", "done", "begun"].map(QueueSpec::new).into(),
        marks: vec!["operation".into()],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}
