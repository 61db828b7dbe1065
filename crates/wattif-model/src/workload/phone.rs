//! `phone`: a user interface drawing frames beside background compilation (an app being installed).
//!
//! Every vsync the UI thread computes, then hands the frame to the render thread; a frame ends when that is done, and is late
//! after one period. The compiler's threads alternate between work and short reads from flash.

use super::dist::Dist;
use super::models::{Model, Param, Params, SIDE_POLICY};
use super::server::forever;
use super::{Amount, DeviceSpec, GroupSpec, Named, Op, Program, SchedAttr, TaskSpec, TimerSpec, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "phone",
    title: "a user interface at a frame rate, and background compilation as side job",
    params: &[
        Param { name: "frame_us", default: "16667", range: Some((1000, 1_000_000)), words: &[], doc: "vsync period" },
        Param {
            name: "ui_us",
            default: "4000",
            range: Some((1, 1_000_000)),
            words: &[],
            doc: "median UI work per frame",
        },
        Param {
            name: "render_us",
            default: "5000",
            range: Some((1, 1_000_000)),
            words: &[],
            doc: "median render work per frame",
        },
        Param { name: "side_threads", default: "10", range: Some((0, 1024)), words: &[], doc: "compiler threads" },
        Param { name: "unit_us", default: "15000", range: Some((1, 10_000_000)), words: &[], doc: "work per method" },
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
    let spread = |us: u64| Amount::Random(Dist::LogNormal { median: us * 1000, sigma_milli: 250 });
    let period = Amount::Fixed(p.int("frame_us") * 1000);
    let ui = forever(vec![
        Op::Timer { timer: 0, period, absolute: false },
        Op::Run(spread(p.int("ui_us") / 2)),
        Op::Put { queue: 0, forward: false },
        Op::Run(spread(p.int("ui_us") / 2)),
    ]);
    let render = forever(vec![Op::Get(0), Op::Run(spread(p.int("render_us"))), Op::Mark(0)]);
    let flash = Dist::Exponential { mean: 400_000 };
    let compile = forever(vec![
        Op::MarkBegin,
        Op::Device { device: 0, service: Amount::Random(flash) },
        Op::Run(spread(p.int("unit_us"))),
        Op::Mark(1),
    ]);
    let interactive = SchedAttr { nice: -4, ..SchedAttr::default() };
    let mut tasks = vec![task("ui", 1, interactive, ui), task("render", 1, interactive, render)];
    if p.int("side_threads") > 0 {
        tasks.push(task("dex2oat", p.int("side_threads"), p.side_attr(), compile));
    }
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(10)),
        tasks,
        timers: vec![TimerSpec { name: "vsync".into(), shared: false }],
        devices: vec![DeviceSpec { name: "flash".into(), servers: 4 }],
        queues: vec![Named { name: "frames".into() }],
        marks: vec!["frame".into(), "method".into()],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}
